// What a file says of a run that changes nothing in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

struct RunLength {
  bool trains = true;
  std::uint64_t steps = 0, steps_per_epoch = 1;
};

// A sentence for each, with its place. They are no mistakes: the run may be a short trial of a long recipe.
std::vector<std::string> without_effect(const Pipeline& pipeline, const RunLength& run);

// What the file says of weights to begin with, and did not say when the run began, which resumes with those of its checkpoint.
// `begun`: the file as the checkpoint has it. "": nothing.
std::string weights_without_effect(const Pipeline& pipeline, const Value& begun);

}  // namespace millrace
