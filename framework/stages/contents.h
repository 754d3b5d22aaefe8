// What samples hold, as far as it can be learned cheaply: names, labels and order may be the same where files are not, as in an
// old copy on another machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/run_state.h"
#include "stages/build.h"

namespace millrace {

// Sizes of all files, where the listing says them, and hashes of up to 64 samples, spread over those that the graph takes, and of
// one of each other class, 128 at most; `salt` draws which. `like`: of the same listing; the same samples are read. Null: not
// given. REQUIRES: build.data().source.
RunState::Contents look_into(const GraphBuild& build, std::uint64_t salt, const RunState::Contents* like = nullptr);

// Hashes of all samples that the graph takes, by part of them, read on so many threads. REQUIRES: build.data().source.
std::vector<std::uint64_t> hash_all(const GraphBuild& build, std::size_t threads);

// "6 of 64 samples that were compared hold other bytes, such as 'data/cat/1.jpg'"; "": what both know is the same.
std::string difference_of_contents(const GraphBuild& build, const RunState::Contents& then, const RunState::Contents& now);

}  // namespace millrace
