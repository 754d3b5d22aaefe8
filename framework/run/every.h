// When a graph that is not the main one runs: `every = "epoch" | "2 epochs" | "100 steps" | "end"`.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

struct Every {
  double epochs = 0;          // > 0: after every so many epochs
  std::uint64_t steps = 0;    // > 0: after every so many steps
  // The end of the run always counts.

  // `done`: steps done so far.
  bool due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const;
};

// An empty text means "epoch". Throws Error(usage) that says what may be written.
Every parse_every(std::string_view text);

}  // namespace millrace
