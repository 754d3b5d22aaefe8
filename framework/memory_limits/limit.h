// What the host and its devices have for a run. How much of it run.memory allows, and whether a run fits: budget.h.
#pragma once

#include <cstddef>
#include <string>

#include "millrace/util/host_memory.h"

namespace millrace {

// How much of addresses this process may have (`ulimit -v`), and so of memory; 0: there is no limit.
std::size_t address_limit();

// The smaller of two limits. Each may be 0: there is none.
inline std::size_t lesser_limit(std::size_t a, std::size_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

std::size_t resident_bytes();               // of this process, now
std::string bytes_text(std::size_t bytes);  // "1.44 GiB", "12.0 MiB"

// "the program holds 39.0 MiB, and there are 2.00 GiB", for a message that memory has run out. `of_host`: what the host has for
// this process; 0: it does not say. address_limit() counts too.
std::string held_memory(std::size_t of_host);

// The part of the host's memory that a batch of size "auto" may count on where run.memory does not say. The rest is for what
// cannot be planned: the cache of files, other programs.
inline std::size_t usable_memory(std::size_t of_host) { return of_host / 4 * 3; }

// The part of a device's own memory, in whole steps of 256 MiB: what comes and goes elsewhere must not change the choice. A part
// stays free for what a device's libraries load later.
std::size_t usable_device_memory(std::size_t free, std::size_t total);

}  // namespace millrace
