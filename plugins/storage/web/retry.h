// When a failed request is tried again. Plain arithmetic, once the clock and the dice are given.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace millrace::web {

using Milliseconds = std::chrono::milliseconds;

struct RetryPolicy {
  int attempts = 10;               // of one request, the first included
  Milliseconds deadline{120'000};  // of one request, all its attempts and pauses included
  Milliseconds first_pause{100};   // doubles with each attempt
  Milliseconds longest_pause{10'000};
};

// One request's life. The pause before attempt n+1 is drawn evenly from 0 to min(longest, first * 2^(n-1)) ("full jitter":
// Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), and comes on top of what the server asked for.
class Retry {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Dice = std::function<double()>;  // evenly from [0, 1)

  Retry(const RetryPolicy& policy, Clock clock, Dice dice);
  explicit Retry(const RetryPolicy& policy);  // with the machine's clock and random dice

  // After a failed attempt: the pause before the next one; none when there is to be none: attempts used up, or the deadline would
  // come first. `retry_after`: what the server asked for.
  std::optional<Milliseconds> pause(Milliseconds retry_after = Milliseconds(0));

  Milliseconds left() const;  // until the deadline, never below zero
  Milliseconds spent() const;
  int attempts() const { return failed_; }  // failed ones
  bool out_of_attempts() const { return failed_ >= policy_.attempts; }
  // "; gave up after 4 attempts in 2.1 s". `deadline`: the variable that sets the deadline, named where that was what ended it.
  std::string gave_up(std::string_view deadline) const;

 private:
  RetryPolicy policy_;
  Clock clock_;
  Dice dice_;
  std::chrono::steady_clock::time_point begin_;
  int failed_ = 0;
};

void wait(Milliseconds time, const std::stop_token& stop = {});  // less when it is asked to stop

}  // namespace millrace::web
