#include "util/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "millrace/error.h"

namespace millrace {

std::filesystem::path make_scratch_folder(const char* what) {
  std::string name = std::filesystem::temp_directory_path() / fmt::format("millrace-{}-XXXXXX", what);
  if (::mkdtemp(name.data()) == nullptr) fail(ErrorKind::run, "no folder '{}' can be made: {}", name, std::strerror(errno));
  return name;
}

ScratchFolder::ScratchFolder(const char* what) : path_(make_scratch_folder(what)) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace millrace
