#include "config/every.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

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

std::optional<Every> parse_every(std::string_view text, std::string& hint) {
  constexpr double kMost = 1e9;
  if (text == "end") return Every{};
  if (text == "never") return Every{.never = true};
  double number = 1;
  std::string_view unit = text;
  if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (code != std::errc() || number <= 0 || number > kMost) return std::nullopt;
    unit = text.substr(static_cast<std::size_t>(rest - text.data()));
    if (!unit.starts_with(' ')) return std::nullopt;
    unit.remove_prefix(1);
  }
  const bool epochs = unit == "epoch" || unit == "epochs", steps = unit == "step" || unit == "steps";
  if ((!epochs && !steps) || (steps && number != std::floor(number))) return std::nullopt;
  if (unit.ends_with('s') != (number != 1)) {
    hint = fmt::format("; write \"{:g} {}{}\"", number, epochs ? "epoch" : "step", number == 1 ? "" : "s");
    return std::nullopt;
  }
  return epochs ? Every{.epochs = number} : Every{.steps = static_cast<std::uint64_t>(number)};
}

}  // namespace millrace
