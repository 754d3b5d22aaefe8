// Runs work in parts on a few threads that mostly wait: for a disk, or for a storage behind a network.
#pragma once

#include <cstddef>
#include <functional>

namespace millrace {

// Runs work(0) ... work(count - 1), each once and in any order, on at most `threads` threads including this one. Throws the error
// of the smallest index that failed; some of the others are then not run. REQUIRES: threads > 0.
void on_threads(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work);

// Starts `count` threads at once and ends them. Call it before a library that ends the process where the system starts no thread.
// Throws where the system starts fewer. Afterwards none of them counts for `ulimit -u` any more.
void try_threads(std::size_t count);

}  // namespace millrace
