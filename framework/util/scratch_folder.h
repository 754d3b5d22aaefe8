// A temporary folder, for libraries that accept only paths.
#pragma once

#include <filesystem>

namespace millrace {

std::filesystem::path make_scratch_folder(const char* what);  // not removed. Throws like ScratchFolder

// Removed with the object, including its content.
class ScratchFolder {
 public:
  explicit ScratchFolder(const char* what);  // "weights": part of its name. Throws Error(run)
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace
