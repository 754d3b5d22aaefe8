// Shared libraries that this plugin opens when they are first needed, so that it loads on machines that lack them.
#pragma once

#include <string>
#include <vector>

namespace millrace::cuda {

// One open library. Stays mapped until the process ends: CUDA's libraries register kernels with the driver and start threads of
// their own, and do not bear being unmapped. Thread-safe.
//
//   Library library({"libcudnn.so.9"});
//   auto* create = library.symbol<decltype(cudnnCreate)>("cudnnCreate");
class Library {
 public:
  // Opens the first of `names` that can be opened, each looked for in the folders that the environment variable
  // MILLRACE_CUDA_LIBRARIES names (colon-separated), then by the loader's own search, then in the toolkit's usual folders.
  // Throws Error(device) that says what was looked for, where, and what the loader said of a file that was there.
  explicit Library(const std::vector<std::string>& names);

  // F is a function's type. Throws Error(device) that names library and symbol.
  template <class F>
  F* symbol(const char* name) const {
    return reinterpret_cast<F*>(find(name));
  }
  const std::string& path() const { return path_; }  // of the file that was opened

 private:
  void* find(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

// Every path that is tried, in order; one without a slash is left to the loader.
std::vector<std::string> library_candidates(const std::vector<std::string>& names, const std::string& folders);

}  // namespace millrace::cuda
