// Sizes and versions of the files of a list, before any is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "file_list.h"
#include "millrace/plugin.h"

namespace millrace {

// The URL of a file as the list has it. `root`: ends in '/', or is empty.
void resolve(const FileList& list, const std::string& root, std::uint64_t index, std::string& url);

struct Measure {
  std::vector<std::uint32_t> bytes;  // by path: saturated_size(); 0: not known
  std::size_t largest = 0;           // bytes of the largest file
  std::uint64_t fingerprint = 1;     // 0: some file's version is not known
  std::uint64_t missing = 0;         // files that are not there, or may not be read
  std::string first_missing;         // the error of the first one, with list and line
};

// Local files are asked for one by one. Of another storage the folder `root` is listed, once; URLs that lead elsewhere are taken
// as they come. Throws ErrorKind::data when no file is there, with the first one's error. `name`: the list's, for messages.
Measure measure(const FileList& list, const std::string& root, const Registry& registry, const std::string& name);

}  // namespace millrace
