#include "api.h"

#include <cstdlib>

#include "library.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr int kLeastVersion = NCCL_VERSION(2, 18, 1);

std::string version_text(int version) { return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100); }

}  // namespace

void set_nccl_environment() { setenv("NCCL_ALGO", "^NVLS,NVLSTree", 0); }

NcclApi load_nccl() {
  const Library library({"libnccl.so.2"});
  int version = 0;
  library.symbol<decltype(ncclGetVersion)>("ncclGetVersion")(&version);
  if (version < kLeastVersion) {
    fail(ErrorKind::device, "{} is NCCL {}; {} or later is needed", library.path(), version_text(version),
         version_text(kLeastVersion));
  }
  NcclApi api;
  api.get_unique_id = library.symbol<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  api.comm_init = library.symbol<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  api.comm_destroy = library.symbol<decltype(ncclCommDestroy)>("ncclCommDestroy");
  api.comm_abort = library.symbol<decltype(ncclCommAbort)>("ncclCommAbort");
  api.comm_state = library.symbol<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  api.error_string = library.symbol<decltype(ncclGetErrorString)>("ncclGetErrorString");
  api.last_error = library.symbol<decltype(ncclGetLastError)>("ncclGetLastError");
  api.all_reduce = library.symbol<decltype(ncclAllReduce)>("ncclAllReduce");
  api.group_start = library.symbol<decltype(ncclGroupStart)>("ncclGroupStart");
  api.group_end = library.symbol<decltype(ncclGroupEnd)>("ncclGroupEnd");
  api.set_device = &cudaSetDevice;
  return api;
}

}  // namespace millrace::cuda
