// When a graph that is not the main one runs: `every = "epoch" | "2 epochs" | "0.5 epochs" | "100 steps" | "end" | "never"`.
// "never": only when it is asked for, by --graph.
//
// A number and its unit (quantity.h). Epochs may have a fraction, as run.epochs may; steps are whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct Every {
  double epochs = 0;        // > 0: after every so many epochs
  std::uint64_t steps = 0;  // > 0: after every so many steps
  bool never = false;
  // Otherwise the end of the run always counts.

  // `done`: steps done so far.
  bool due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const;
  // How often it has been due after so many steps, their end left aside. 0: never, or neither epochs nor steps are given.
  std::uint64_t times(std::uint64_t done, std::uint64_t steps_per_epoch) const;
};

// Nothing for what cannot be read. `hint`: then what would be right, where that can be told: "; write \"2 epochs\"".
std::optional<Every> parse_every(std::string_view text, std::string& hint);

// For messages: what may be written.
inline constexpr const char* kEveryForms =
    "\"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", \"0.5 epochs\" or \"100 steps\" (a fraction is "
    "for epochs only)";

}  // namespace millrace
