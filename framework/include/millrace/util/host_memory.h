// The memory of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// The machine's memory in bytes, or the limit of this process's control group (version 1 or 2) or one above it, if that is less.
// 0: unknown. `root`: root of the file system, for tests.
std::size_t host_memory(const std::string& root = "/");

// Whether this many bytes fit in memory at all: a file may claim any size. The system's answer is cached.
bool fits_in_host_memory(std::uint64_t bytes);

}  // namespace millrace
