// How much of the host's memory a run may plan with.
#pragma once

#include <cstddef>
#include <filesystem>

namespace millrace {

// What the machine has, or what this process's control group (version 1 or 2) or one above it allows where that is less. 0: the
// system does not say. `root`: of the file system, for tests.
std::size_t host_memory(const std::filesystem::path& root = "/");

// Of that, what a batch of size "auto" may count on where run.memory does not say. The rest is for what nobody can plan: the
// cache of files, other programs.
inline std::size_t usable_memory(std::size_t of_host) { return of_host / 4 * 3; }

// Of a device's own memory, in whole steps of 256 MiB: what comes and goes elsewhere must not change the choice. A part stays
// free for what a device's libraries load later.
std::size_t usable_device_memory(std::size_t free, std::size_t total);

}  // namespace millrace
