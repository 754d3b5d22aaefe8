#include "files/folder_names.h"

#include <system_error>

#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ErrorKind::run, "the folder '{}' cannot be read: {}", folder.string(), error.message());
  }
  return names;
}

bool has_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_type type = fs::status(folder, error).type();
  if (type == fs::file_type::none) {
    fail(ErrorKind::run, "the folder '{}' cannot be accessed: {}", folder.string(), error.message());
  }
  return type == fs::file_type::directory;
}

}  // namespace millrace
