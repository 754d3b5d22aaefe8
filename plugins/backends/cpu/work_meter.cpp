#include "work_meter.h"

#include <algorithm>

namespace millrace::cpu {

void WorkMeter::begin(Work work) {
  const std::uint64_t now = now_ticks(), since = since_.load();
  std::atomic<std::uint64_t>& ticks = ticks_[static_cast<std::size_t>(now_.load())];
  ++changes_;
  ticks = ticks.load() + (now - std::min(now, since));
  since_ = now;
  now_ = work;
  ++changes_;
}

DeviceTimes WorkMeter::times() const {
  std::array<std::uint64_t, kKinds> ticks{};
  std::uint64_t changes = 0;
  do {
    changes = changes_.load();
    for (std::size_t kind = 0; kind < kKinds; ++kind) ticks[kind] = ticks_[kind].load();
    const std::uint64_t now = now_ticks(), since = since_.load();
    ticks[static_cast<std::size_t>(now_.load())] += now - std::min(now, since);
  } while (changes % 2 != 0 || changes != changes_.load());
  const auto seconds = [&](Work work) { return seconds_per_tick() * static_cast<double>(ticks[static_cast<std::size_t>(work)]); };
  return {seconds(Work::training), seconds(Work::inference), seconds(Work::update), seconds(Work::copying), seconds(Work::sums)};
}

}  // namespace millrace::cpu
