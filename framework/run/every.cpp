#include "run/every.h"

#include <charconv>
#include <cmath>

#include "millrace/error.h"

namespace millrace {

bool Every::due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const {
  if (done == 0) return false;
  if (done == total_steps) return true;
  if (steps > 0) return done % steps == 0;
  if (epochs <= 0) return false;
  // The n-th time is at the step nearest to n * epochs.
  const double period = epochs * static_cast<double>(steps_per_epoch);
  const double times = std::round(static_cast<double>(done) / period);
  return times >= 1 && static_cast<std::uint64_t>(std::llround(times * period)) == done;
}

Every parse_every(std::string_view text) {
  if (text.empty() || text == "epoch") return {.epochs = 1};
  if (text == "end") return {};
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (code == std::errc() && number > 0 && (unit == " epochs" || unit == " epoch")) return {.epochs = number};
  if (code == std::errc() && number >= 1 && number == std::floor(number) && (unit == " steps" || unit == " step")) {
    return {.steps = static_cast<std::uint64_t>(number)};
  }
  fail(ErrorKind::usage, "every = \"{}\": write \"epoch\", \"2 epochs\", \"100 steps\" or \"end\"", text);
}

}  // namespace millrace
