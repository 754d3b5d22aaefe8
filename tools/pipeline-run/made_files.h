// Files that a program writes before it knows whether it succeeds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// Without keep(), removes the written files and the folders made for them, and restores previous contents. Errors of write():
// storage, naming the file. Not thread-safe.
class MadeFiles {
 public:
  MadeFiles() = default;
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;
  ~MadeFiles();

  void write(const std::filesystem::path& path, const std::string& text);
  bool has(const std::filesystem::path& path) const;  // the path given to write(); for files that are not kept yet
  void keep();

 private:
  struct Made {
    std::filesystem::path path;
    std::optional<std::string> before;  // previous contents; empty if there was no file
  };
  std::vector<Made> files_;
  std::vector<std::filesystem::path> folders_;  // outer ones first
};

}  // namespace millrace
