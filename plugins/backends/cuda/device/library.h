// Shared libraries loaded on first use, so that this plugin loads on machines without them.
#pragma once

#include <string>
#include <vector>

namespace millrace::cuda {

// One open library. Never unloaded: CUDA's libraries register kernels with the driver and start threads, and cannot be unmapped.
// Thread-safe.
//
//   Library library({"libcudnn.so.9"});
//   auto* create = library.symbol<decltype(cudnnCreate)>("cudnnCreate");
class Library {
 public:
  // Opens the first of `names` that loads, each searched in the folders of the environment variable MILLRACE_CUDA_LIBRARIES
  // (colon-separated), then by the loader, then in the toolkit's usual folders. Throws Error(device) with the names, the folders,
  // and the loader's error for an existing file.
  explicit Library(const std::vector<std::string>& names);

  // F is a function's type. Throws Error(device), naming library and symbol.
  template <class F>
  F* symbol(const char* name) const {
    return reinterpret_cast<F*>(find(name));
  }
  const std::string& path() const { return path_; }  // the loaded file

 private:
  void* find(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

// Every path to try, in order; names without a slash are left to the loader.
std::vector<std::string> library_candidates(const std::vector<std::string>& names, const std::string& folders);

}  // namespace millrace::cuda
