// Decides when a failed request is retried. Plain arithmetic, given the clock and the dice.
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
  int attempts = 10;               // per request, including the first
  Milliseconds deadline{120'000};  // per request, including all attempts and pauses
  Milliseconds first_pause{100};   // doubles with each attempt
  Milliseconds longest_pause{10'000};
};

// One request's life. The pause before attempt n+1 is drawn uniformly from 0 to min(longest, first * 2^(n-1)) ("full jitter":
// Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), and is added to the server's Retry-After.
class Retry {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Dice = std::function<double()>;  // uniform in [0, 1)

  Retry(const RetryPolicy& policy, Clock clock, Dice dice);
  explicit Retry(const RetryPolicy& policy);  // with the machine's clock and random dice

  // After a failed attempt: the pause before the next one; empty if there is none: attempts used up, or the deadline comes first.
  // `retry_after`: the server's.
  std::optional<Milliseconds> pause(Milliseconds retry_after = Milliseconds(0));

  Milliseconds left() const;  // until the deadline, never below zero
  Milliseconds spent() const;
  int attempts() const { return failed_; }  // failed attempts
  bool out_of_attempts() const { return failed_ >= policy_.attempts; }
  // "; gave up after 4 attempts in 2.1 s". `deadline`: the variable that sets the deadline, named if that was the limit.
  std::string gave_up(std::string_view deadline) const;

 private:
  RetryPolicy policy_;
  Clock clock_;
  Dice dice_;
  std::chrono::steady_clock::time_point begin_;
  int failed_ = 0;
};

void wait(Milliseconds time, const std::stop_token& stop = {});  // returns early on a stop request

}  // namespace millrace::web
