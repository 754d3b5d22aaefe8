#include "retry.h"

#include <algorithm>
#include <utility>

namespace millrace::s3 {

Retry::Retry(const RetryPolicy& policy, Clock clock, Dice dice)
    : policy_(policy), clock_(std::move(clock)), dice_(std::move(dice)), begin_(clock_()) {}

std::optional<Milliseconds> Retry::pause(Milliseconds retry_after) {
  ++failed_;
  if (out_of_attempts()) return std::nullopt;
  Milliseconds longest = policy_.first_pause;
  for (int i = 1; i < failed_ && longest < policy_.longest_pause; ++i) longest *= 2;
  longest = std::min(longest, policy_.longest_pause);
  const Milliseconds left_now = left();
  if (retry_after >= left_now) return std::nullopt;
  const auto drawn = Milliseconds(static_cast<Milliseconds::rep>(static_cast<double>(longest.count()) * dice_()));
  const Milliseconds whole = retry_after + drawn;
  if (whole >= left_now) return std::nullopt;
  return whole;
}

Milliseconds Retry::spent() const { return std::chrono::duration_cast<Milliseconds>(clock_() - begin_); }

Milliseconds Retry::left() const { return std::max(Milliseconds(0), policy_.deadline - spent()); }

}  // namespace millrace::s3
