// The memory of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// What the machine has, or what this process's control group (version 1 or 2) or one above it allows where that is less. 0: the
// system does not say. `root`: of the file system, for tests.
std::size_t host_memory(const std::string& root = "/");

// Whether so many bytes could be held at all: a file may claim any size. The system is asked once.
bool fits_in_host_memory(std::uint64_t bytes);

}  // namespace millrace
