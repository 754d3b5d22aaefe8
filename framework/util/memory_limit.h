// The memory of the host and its devices that a run may use. For run.memory and whether a run fits, see budget.h.
#pragma once

#include <cstddef>
#include <string>

#include "millrace/util/host_memory.h"

namespace millrace {

// Limit of this process's address space (`ulimit -v`), and so of its memory; 0: no limit.
std::size_t address_limit();

// The smaller of two limits, where 0 means no limit.
inline std::size_t lesser_limit(std::size_t a, std::size_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

std::size_t resident_bytes();               // current memory of this process
std::string bytes_text(std::size_t bytes);  // "1.44 GiB", "12.0 MiB"

// "the program holds 39.0 MiB, and there are 2.00 GiB", for an out-of-memory message. `of_host`: memory of the host for this
// process; 0: unknown. Includes address_limit().
std::string held_memory(std::size_t of_host);

// The part of the host's memory for a batch of size "auto" without run.memory. The rest is for unplanned use: the cache of
// files, other programs.
inline std::size_t usable_memory(std::size_t of_host) { return of_host / 4 * 3; }

// The usable part of a device's own memory, in steps of 256 MiB, so that small changes elsewhere do not affect the choice. Some
// stays free for what a device's libraries load later.
std::size_t usable_device_memory(std::size_t free, std::size_t total);

}  // namespace millrace
