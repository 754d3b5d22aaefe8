#include "watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace millrace::cuda {

NcclWatch::NcclWatch(std::vector<std::string> devices, NcclLimits limits)
    : devices_(std::move(devices)), limits_(limits), done_(devices_.size(), 0) {}

void NcclWatch::submitted(std::uint64_t step, int bucket) {
  assert(!failure_);
  Sum sum;
  sum.step = step;
  sum.bucket = bucket;
  sum.states.assign(devices_.size(), State::waiting);
  sums_.push_back(std::move(sum));
}

NcclWatch::Sum* NcclWatch::current(std::size_t device) {
  const auto at = static_cast<std::size_t>(done_[device] - retired_);
  return at < sums_.size() ? &sums_[at] : nullptr;
}

void NcclWatch::arrive(Sum& sum, std::size_t device, Time now) {
  if (sum.states[device] != State::waiting) return;
  sum.states[device] = State::arrived;
  if (!sum.first) sum.first = now;
  if (count(sum, State::waiting) == 0) sum.last = now;
}

void NcclWatch::arrived(std::size_t device, Time now) {
  if (Sum* sum = current(device)) arrive(*sum, device, now);
}

void NcclWatch::finished(std::size_t device, Time now) {
  Sum* sum = current(device);
  assert(sum != nullptr);
  arrive(*sum, device, now);
  sum->states[device] = State::finished;
  ++done_[device];
  while (!sums_.empty() && count(sums_.front(), State::finished) == devices_.size()) {
    sums_.pop_front();
    ++retired_;
  }
}

std::size_t NcclWatch::count(const Sum& sum, State state) const {
  return static_cast<std::size_t>(std::count(sum.states.begin(), sum.states.end(), state));
}

std::string NcclWatch::names(const Sum& sum, State state) const {
  std::vector<std::string> found;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (sum.states[d] == state) found.push_back(devices_[d]);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

std::optional<std::string> NcclWatch::overdue(Time now) const {
  if (sums_.empty()) return std::nullopt;
  const Sum& sum = sums_.front();
  const auto seconds = [](std::chrono::milliseconds limit) { return std::chrono::duration<double>(limit).count(); };
  if (sum.last && now - *sum.last > limits_.sum) {
    return fmt::format("the sum of bucket {} of step {} has not come to an end within {:g} s on {}", sum.bucket, sum.step,
                       seconds(limits_.sum), names(sum, State::arrived));
  }
  if (sum.first && !sum.last && now - *sum.first > limits_.arrival) {
    return fmt::format("bucket {} of step {}: no gradients from {} within {:g} s of the first device's", sum.bucket, sum.step,
                       names(sum, State::waiting), seconds(limits_.arrival));
  }
  return std::nullopt;
}

void NcclWatch::fail(const std::string& reason) {
  if (!failure_) failure_ = reason;
}

void NcclWatch::fail(std::size_t device, const std::string& reason) {
  const Sum* sum = current(device);
  fail(sum ? fmt::format("bucket {} of step {} on {}: {}", sum->bucket, sum->step, devices_[device], reason)
           : fmt::format("{}: {}", devices_[device], reason));
}

}  // namespace millrace::cuda
