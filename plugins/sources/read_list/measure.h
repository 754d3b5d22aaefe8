// Sizes and versions of a list's files, before any is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "file_list.h"
#include "millrace/plugin.h"

namespace millrace {

// The URL of a file in the list. `root`: ends in '/', or is empty.
void resolve(const FileList& list, const std::string& root, std::uint64_t index, std::string& url);

struct Measure {
  std::vector<std::uint32_t> bytes;    // by path: saturated_size(); 0 if unknown
  std::size_t largest = 0;             // size of the largest file in bytes
  std::uint64_t fingerprint = 1;       // 0 if some file's version is unknown
  std::vector<std::uint32_t> missing;  // paths of missing or unreadable files, ascending
  std::string first_missing;           // the error of one, with list and line: the first local one

  std::size_t memory() const { return (bytes.capacity() + missing.capacity()) * sizeof(std::uint32_t); }
};

// Local files are checked one by one, on kAskingThreads: a million take some seconds on a local disk, and a million round trips
// divided by the threads on a network disk. On other storage the folder `root` is listed once; URLs elsewhere are accepted
// unchecked, and so are all URLs if the storage cannot list folders, as with a web server. Throws ErrorKind::data if no file
// exists, with the first one's error. `name`: the list's, for messages.
inline constexpr std::size_t kAskingThreads = 16;
Measure measure(const FileList& list, const std::string& root, const Registry& registry, const std::string& name);

}  // namespace millrace
