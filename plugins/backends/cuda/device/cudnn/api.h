// cuDNN 9, loaded when the first convolution is planned: types come from its headers, functions from this table.
#pragma once

#include <cudnn_graph.h>

#include <optional>
#include <string_view>

#include "library.h"

namespace millrace::cuda {

// clang-format off
#define MILLRACE_CUDNN_FUNCTIONS(X)                                                                           \
  X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) X(cudnnCreate) X(cudnnDestroy)         \
  X(cudnnSetStream) X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendFinalize)  \
  X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendExecute)
// clang-format on

// Thread-safe.
class CudnnApi {
 public:
  // Throws Error(device) without cuDNN 9. Also loads NVRTC if found: cuDNN, which generates code for fused operations,
  // loads it by its bare name and then gets this one. Without it fewer operations are fused.
  CudnnApi();

#define MILLRACE_DECLARE(name) decltype(::name)* name = nullptr;
  MILLRACE_CUDNN_FUNCTIONS(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE

  std::size_t version() const { return version_; }  // 91900 for 9.19.0
  const std::string& path() const { return library_.path(); }

  // Throws Error(device) with the call, its purpose, and cuDNN's description.
  void check(cudnnStatus_t status, std::string_view call, std::string_view about = {}) const;
  std::string reason(cudnnStatus_t status) const;  // for the last call on this thread

 private:
  Library library_;
  std::optional<Library> compiler_;
  std::size_t version_ = 0;
};

}  // namespace millrace::cuda
