#include "report/number_watch.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace millrace {
namespace {

constexpr std::uint64_t kLate = 64;  // maximum delay of a report, in steps

bool is_power_of_ten(std::uint64_t number) {
  while (number % 10 == 0) number /= 10;
  return number == 1;
}

}  // namespace

// The sign of NaN is meaningless.
std::string WrongNumber::text() const {
  const char* const is = !value ? "not finite" : std::isnan(*value) ? "nan" : *value > 0 ? "inf" : "-inf";
  return fmt::format("step {}: {} is {}", step + 1, what, is);
}

void NumberWatch::add(std::uint64_t step, std::string_view what, double value) {
  if (!std::isfinite(value)) take({step, std::string(what), value});
}

void NumberWatch::not_finite(std::uint64_t step, std::string_view what) { take({step, std::string(what), std::nullopt}); }

void NumberWatch::take(const WrongNumber& found) {
  const std::uint64_t step = found.step;
  const Lock lock(mutex_);
  if (!wrong_.try_emplace(step, found).second) return;  // only the first one of a step counts
  ++steps_;
  if (setting_.skips) warn();
  if (!setting_.skips || in_a_row(step) > setting_.most_in_a_row) {
    if (!trouble_ || step < trouble_->step) trouble_ = found;
    in_trouble_ = true;
  }
  while (wrong_.size() > setting_.most_in_a_row + kLate) wrong_.erase(wrong_.begin());
}

// REQUIRES: `step` is one of them.
std::uint64_t NumberWatch::in_a_row(std::uint64_t step) const {
  const auto at = wrong_.find(step);
  std::uint64_t count = 1;
  for (auto next = std::next(at); next != wrong_.end() && next->first == step + count; ++next) ++count;
  std::uint64_t first = step;
  for (auto before = at; before != wrong_.begin() && std::prev(before)->first + 1 == first; --before) --first;
  return count + (step - first);
}

void NumberWatch::warn() const {
  if (!setting_.warn || !is_power_of_ten(steps_)) return;
  if (steps_ == 1) {
    setting_.warn(
        fmt::format("{}: steps whose gradients are not finite update nothing; they are counted from now on, and more than {} in "
                    "a row end the run",
                    wrong_.begin()->second.text(), setting_.most_in_a_row));
  } else {
    setting_.warn(fmt::format("{} steps so far had a loss or gradients that were not finite", steps_));
  }
}

std::optional<WrongNumber> NumberWatch::trouble() const {
  const Lock lock(mutex_);
  return trouble_;
}

std::uint64_t NumberWatch::steps() const {
  const Lock lock(mutex_);
  return steps_;
}

}  // namespace millrace
