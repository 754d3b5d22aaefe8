#include "api.h"

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kOldest = 90000;

std::optional<Library> open_if_there(const std::vector<std::string>& names) {
  try {
    return Library(names);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Library> open_compiler() {
  open_if_there({"libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.13.1", "libnvrtc-builtins.so.13.2"});  // for NVRTC
  return open_if_there({"libnvrtc.so.13"});
}

}  // namespace

CudnnApi::CudnnApi() : library_({"libcudnn.so.9"}), compiler_(open_compiler()) {
#define MILLRACE_LOAD(name) name = library_.symbol<decltype(::name)>(#name);
  MILLRACE_CUDNN_FUNCTIONS(MILLRACE_LOAD)
#undef MILLRACE_LOAD
  version_ = cudnnGetVersion();
  if (version_ < kOldest) fail(ErrorKind::device, "{} is cuDNN {}; version 9 is needed", library_.path(), version_);
}

std::string CudnnApi::reason(cudnnStatus_t status) const {
  char text[1024] = "";  // cuDNN cuts longer ones
  cudnnGetLastErrorString(text, sizeof text);
  const std::string name = cudnnGetErrorString(status);
  return text[0] == '\0' ? name : fmt::format("{}: {}", name, static_cast<const char*>(text));
}

void CudnnApi::check(cudnnStatus_t status, std::string_view call, std::string_view about) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail(ErrorKind::device, "{} failed{}{}: {}", call, about.empty() ? "" : " for ", about, reason(status));
}

}  // namespace millrace::cuda
