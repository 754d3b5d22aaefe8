// Files that a program makes before it knows whether anything comes of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// Without keep() the files that were written are taken back, and so are the folders that were made for them; what was there
// before is there again. Errors of write(): storage, naming the file. Not thread-safe.
class MadeFiles {
 public:
  MadeFiles() = default;
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;
  ~MadeFiles();

  void write(const std::filesystem::path& path, const std::string& text);
  bool has(const std::filesystem::path& path) const;  // as write() was given it; of files that are not kept yet
  void keep();

 private:
  struct Made {
    std::filesystem::path path;
    std::optional<std::string> before;  // what the file held; nothing: there was none
  };
  std::vector<Made> files_;
  std::vector<std::filesystem::path> folders_;  // the outer ones first
};

}  // namespace millrace
