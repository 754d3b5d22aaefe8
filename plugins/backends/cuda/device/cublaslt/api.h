// cuBLASLt, loaded when the first matrix product is planned: types come from its header, functions from this table.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string_view>

#include "library.h"

namespace millrace::cuda {

// clang-format off
#define MILLRACE_CUBLASLT_FUNCTIONS(X)                                                                      \
  X(cublasLtGetVersion) X(cublasLtGetStatusString) X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul)   \
  X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute)                \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatmulPreferenceCreate)            \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulAlgoCheck) X(cublasLtMatmulAlgoConfigGetAttribute)
// clang-format on

// Thread-safe.
class CublasLtApi {
 public:
  CublasLtApi();  // throws Error(device) without cuBLASLt 13

#define MILLRACE_DECLARE(name) decltype(::name)* name = nullptr;
  MILLRACE_CUBLASLT_FUNCTIONS(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE

  std::size_t version() const { return version_; }  // 130100 for 13.1.0
  const std::string& path() const { return library_.path(); }

  // Throws Error(device) with the call, its purpose, and cuBLASLt's description.
  void check(cublasStatus_t status, std::string_view call, std::string_view about = {}) const;

 private:
  Library library_;
  std::size_t version_ = 0;
};

// A context on the device that is current at construction. cuBLASLt keeps no state of a run in it, so all queues share one.
class CublasLtHandle {
 public:
  explicit CublasLtHandle(std::shared_ptr<const CublasLtApi> api) : api_(std::move(api)) {
    api_->check(api_->cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~CublasLtHandle() { api_->cublasLtDestroy(handle_); }
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  const CublasLtApi& api() const { return *api_; }
  cublasLtHandle_t native() const { return handle_; }

 private:
  const std::shared_ptr<const CublasLtApi> api_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace millrace::cuda
