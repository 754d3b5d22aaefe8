#include "retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

namespace millrace::web {

namespace {

double roll() {
  thread_local std::minstd_rand engine(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

}  // namespace

Retry::Retry(const RetryPolicy& policy, Clock clock, Dice dice)
    : policy_(policy), clock_(std::move(clock)), dice_(std::move(dice)), begin_(clock_()) {}

Retry::Retry(const RetryPolicy& policy)
    : Retry(
          policy, [] { return std::chrono::steady_clock::now(); }, roll) {}

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

std::string Retry::gave_up(std::string_view deadline) const {
  return fmt::format("; gave up after {} attempt{} in {:.1f} s{}", attempts(), attempts() == 1 ? "" : "s",
                     static_cast<double>(spent().count()) / 1000,
                     out_of_attempts()
                         ? std::string()
                         : fmt::format(" ({} is {:.4g} s)", deadline, static_cast<double>(policy_.deadline.count()) / 1000));
}

void wait(Milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
}

}  // namespace millrace::web
