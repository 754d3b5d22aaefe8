#include "config/every.h"

#include <array>
#include <cmath>

#include "config/quantity.h"
#include "millrace/detail/value.h"

namespace millrace {

bool Every::due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const {
  if (done == 0 || never) return false;
  if (done == total_steps) return true;
  if (steps > 0) return done % steps == 0;
  if (epochs <= 0) return false;
  // The n-th time is at the step nearest to n * epochs.
  const double period = epochs * static_cast<double>(steps_per_epoch);
  const double times = std::round(static_cast<double>(done) / period);
  return times >= 1 && static_cast<std::uint64_t>(std::llround(times * period)) == done;
}

// The n-th time is at the step nearest to n * epochs, as above, and the later of two equally near steps.
std::uint64_t Every::times(std::uint64_t done, std::uint64_t steps_per_epoch) const {
  if (steps > 0) return done / steps;
  if (epochs <= 0) return 0;
  const double period = epochs * static_cast<double>(steps_per_epoch);
  return static_cast<std::uint64_t>(std::ceil((static_cast<double>(done) + 0.5) / period)) - 1;
}

std::optional<Every> parse_every(std::string_view text, std::string& hint) {
  static constexpr std::array<std::string_view, 2> kUnits = {"epoch", "step"};
  if (text == "end") return Every{};
  if (text == "never") return Every{.never = true};
  const auto quantity = parse_quantity(text, kUnits, hint);
  if (!quantity) {
    const auto word = hint.empty() ? nearest_name(text, {"end", "never"}) : std::nullopt;
    if (word) hint = "; nearest is \"" + *word + "\"";
    return std::nullopt;
  }
  const double number = quantity->number;
  if (quantity->unit == 0) return Every{.epochs = number};
  if (number != std::floor(number)) return std::nullopt;
  return Every{.steps = static_cast<std::uint64_t>(number)};
}

}  // namespace millrace
