// Cheap checks of samples' contents: names, labels and order may be equal while files differ, as in an old copy on another
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/saved_state.h"
#include "prepare/graph_build.h"

namespace millrace {

// Hashes sizes of all files, if the listing has them, and up to 64 of the graph's samples, chosen by `salt`. `like`: contents of
// the same listing, to read the same samples; may be null. REQUIRES: build.data().source.
SavedState::Contents look_into(const GraphBuild& build, std::uint64_t salt, const SavedState::Contents* like = nullptr);

// Hashes of all samples that the graph takes, by part, read on `threads` threads. REQUIRES: build.data().source.
std::vector<std::uint64_t> hash_all(const GraphBuild& build, std::size_t threads);

// "6 of 64 samples that were compared hold other bytes, such as 'data/cat/1.jpg'"; "" if the known parts are equal.
std::string difference_of_contents(const GraphBuild& build, const SavedState::Contents& then, const SavedState::Contents& now);

}  // namespace millrace
