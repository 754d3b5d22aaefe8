// The functions of NCCL that are used here, from a library that is opened when a second device is.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace millrace::cuda {

struct NcclApi {
  decltype(ncclGetUniqueId)* get_unique_id = nullptr;
  decltype(ncclCommInitRankConfig)* comm_init = nullptr;
  decltype(ncclCommDestroy)* comm_destroy = nullptr;
  decltype(ncclCommAbort)* comm_abort = nullptr;
  decltype(ncclCommGetAsyncError)* comm_state = nullptr;
  decltype(ncclGetErrorString)* error_string = nullptr;
  decltype(ncclGetLastError)* last_error = nullptr;
  decltype(ncclAllReduce)* all_reduce = nullptr;
  decltype(ncclGroupStart)* group_start = nullptr;
  decltype(ncclGroupEnd)* group_end = nullptr;
  cudaError_t (*set_device)(int) = nullptr;  // the CUDA runtime's; in the table so that tests need no runtime
};

// NCCL may add up in NVLink's switches ("NVLS", on several machines "NVLSTree"), whose order of additions differs from call to
// call with some drivers. Unless NCCL_ALGO is in the environment, this excludes them, so that two runs give the same bits.
// REQUIRES: no other thread runs, since it may read the environment.
void set_nccl_environment();

// Opens libnccl.so.2. Throws Error(device) that says where it was looked for, or that it is too old.
NcclApi load_nccl();

}  // namespace millrace::cuda
