// When a graph other than the main one runs: `every = "epoch" | "2 epochs" | "0.5 epochs" | "100 steps" | "end" | "never"`.
// "never": only on request, by --graph.
//
// A number and its unit (quantity.h). Epochs may have a fraction, as run.epochs may; steps are whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct Every {
  double epochs = 0;        // > 0: the interval in epochs
  std::uint64_t steps = 0;  // > 0: the interval in steps
  bool never = false;
  // In all other cases the end of the run counts.

  // `done`: steps done so far.
  bool due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const;
  // How often it was due within `done` steps, without the run's end. 0: never, or neither epochs nor steps are given.
  std::uint64_t times(std::uint64_t done, std::uint64_t steps_per_epoch) const;
};

// Empty if the text is invalid. `hint`: then a correction, if one is known: "; write \"2 epochs\"".
std::optional<Every> parse_every(std::string_view text, std::string& hint);

// The valid forms, for messages.
inline constexpr const char* kEveryForms =
    "\"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", \"0.5 epochs\" or \"100 steps\" (a fraction is "
    "for epochs only)";

}  // namespace millrace
