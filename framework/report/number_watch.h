// Numbers of training steps that are not finite.
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

// A figure of a step that is not finite.
struct WrongNumber {
  std::uint64_t step = 0;  // from 0
  std::string what;        // "loss", "gradient_norm", "a gradient"
  std::optional<double> value;

  std::string text() const;  // "step 12: loss is nan"; without a value "step 12: a gradient is not finite"
};

// Looks at what steps report, and says when the run has to end: at once, or where steps with such a number may update nothing,
// when there are too many of them in a row. Thread-safe.
class NumberWatch {
 public:
  struct Setting {
    bool skips = false;                                    // stages leave out the updates of such steps
    std::uint64_t most_in_a_row = 0;                       // of them
    std::function<void(std::string text)> warn = nullptr;  // of the first one, and then by their number; null: none is told
  };
  explicit NumberWatch(Setting setting) : setting_(std::move(setting)) {}

  // A figure of a step; steps may come out of order.
  void look(std::uint64_t step, std::string_view what, double value);
  void not_finite(std::uint64_t step, std::string_view what);  // without its value

  bool in_trouble() const { return in_trouble_; }  // the run has to end
  std::optional<WrongNumber> trouble() const;      // the first number that is known, once the run has to end
  std::uint64_t steps() const;                     // how many had such a number

 private:
  std::uint64_t in_a_row(std::uint64_t step) const MILLRACE_REQUIRES(mutex_);
  void take(const WrongNumber& found);
  void warn() const MILLRACE_REQUIRES(mutex_);

  const Setting setting_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, WrongNumber> wrong_ MILLRACE_GUARDED_BY(mutex_);  // by step; the newest
  std::uint64_t steps_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::optional<WrongNumber> trouble_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> in_trouble_{false};
};

}  // namespace millrace
