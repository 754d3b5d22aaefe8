// Sizes and versions of the files of a list, before any is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "file_list.h"
#include "millrace/plugin.h"

namespace millrace {

// The URL of a file as the list has it. `root`: ends in '/', or is empty.
void resolve(const FileList& list, const std::string& root, std::uint64_t index, std::string& url);

struct Measure {
  std::vector<std::uint32_t> bytes;    // by path: saturated_size(); 0: not known
  std::size_t largest = 0;             // bytes of the largest file
  std::uint64_t fingerprint = 1;       // 0: some file's version is not known
  std::vector<std::uint32_t> missing;  // paths of files that are not there, or may not be read, ascending
  std::string first_missing;           // the error of one, with list and line: the first of those on this machine

  std::size_t memory() const { return (bytes.capacity() + missing.capacity()) * sizeof(std::uint32_t); }
};

// Local files are asked for one by one, on kAskingThreads: a million take some seconds on a disk of this machine, and as many
// round trips, divided by the threads, on one behind a network. Of another storage the folder `root` is listed, once; URLs that
// lead elsewhere are taken as they come, and so are all where the storage has no folders that it could list, as a web server.
// Throws ErrorKind::data when no file is there, with the first one's error. `name`: the list's, for messages.
inline constexpr std::size_t kAskingThreads = 16;
Measure measure(const FileList& list, const std::string& root, const Registry& registry, const std::string& name);

}  // namespace millrace
