// A folder among the system's temporary ones, for what only a path can be given of.
#pragma once

#include <filesystem>

namespace millrace {

std::filesystem::path make_scratch_folder(const char* what);  // that stays. Throws as ScratchFolder does

// Gone with the object, and all that is in it.
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
