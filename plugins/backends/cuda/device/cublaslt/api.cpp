#include "api.h"

#include "millrace/error.h"

namespace millrace::cuda {

CublasLtApi::CublasLtApi() : library_({"libcublasLt.so.13"}) {
#define MILLRACE_LOAD(name) name = library_.symbol<decltype(::name)>(#name);
  MILLRACE_CUBLASLT_FUNCTIONS(MILLRACE_LOAD)
#undef MILLRACE_LOAD
  version_ = cublasLtGetVersion();
}

void CublasLtApi::check(cublasStatus_t status, std::string_view call, std::string_view about) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorKind::device, "{} failed{}{}: {}", call, about.empty() ? "" : " for ", about, cublasLtGetStatusString(status));
}

}  // namespace millrace::cuda
