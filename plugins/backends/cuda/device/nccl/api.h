// The NCCL functions used here, from a library that is loaded with the second device.
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

// NCCL may sum in NVLink's switches ("NVLS", on several machines "NVLSTree"), whose order of additions varies between calls with
// some drivers. Unless NCCL_ALGO is set, this excludes them, so that two runs give identical bits. REQUIRES: no other threads are
// running, since they may read the environment.
void set_nccl_environment();

// Loads libnccl.so.2. Throws Error(device) with the places searched, or if it is too old.
NcclApi load_nccl();

}  // namespace millrace::cuda
