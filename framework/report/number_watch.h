// Detects non-finite values in training steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"

namespace millrace {

// A non-finite value in a step.
struct WrongNumber {
  std::uint64_t step = 0;  // from 0
  std::string what;        // "loss", "gradient_norm", "a gradient"
  std::optional<double> value;

  std::string text() const;  // "step 12: loss is nan"; without a value "step 12: a gradient is not finite"
};

// Checks the values that steps report, and decides when to end the run: at once, or, if such steps skip their updates, after too
// many of them in a row. Thread-safe.
class NumberWatch {
 public:
  struct Setting {
    bool skips = false;                                    // stages skip the updates of such steps
    std::uint64_t most_in_a_row = 0;                       // such steps
    std::function<void(std::string text)> warn = nullptr;  // called for the first one, then at powers of ten; may be null
  };
  explicit NumberWatch(Setting setting) : setting_(std::move(setting)) {}

  // A value of a step; steps may come out of order.
  void add(std::uint64_t step, std::string_view what, double value);
  void not_finite(std::uint64_t step, std::string_view what);  // if its value is unknown

  bool in_trouble() const { return in_trouble_; }  // the run must end
  std::optional<WrongNumber> trouble() const;      // the first known value, once the run must end
  std::uint64_t steps() const;                     // number of affected steps

 private:
  std::uint64_t in_a_row(std::uint64_t step) const MILLRACE_REQUIRES(mutex_);
  void take(const WrongNumber& found);
  void warn() const MILLRACE_REQUIRES(mutex_);

  const Setting setting_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, WrongNumber> wrong_ MILLRACE_GUARDED_BY(mutex_);  // the newest steps
  std::uint64_t steps_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::optional<WrongNumber> trouble_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> in_trouble_{false};
};

}  // namespace millrace
