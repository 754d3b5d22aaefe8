// How fast what a run counts has grown of late, for observers that show it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "millrace/util/telemetry_event.h"

namespace millrace {

// How fast a sum has grown; 0 where it is smaller than before: of another graph, where it began again.
inline double growth_rate(double now, double before, double seconds) {
  return seconds > 0 && now > before ? (now - before) / seconds : 0;
}

template <class T>
T entry_of(const std::vector<T>& all, std::size_t index) {  // a new one where there is none
  return index < all.size() ? all[index] : T{};
}

// The device as it was told before; a new one where it was not. Ranks report in any order.
inline DeviceTelemetry earlier_of(const DeviceTelemetry& device, const std::vector<DeviceTelemetry>& before) {
  const auto found = std::ranges::find_if(
      before, [&](const DeviceTelemetry& each) { return each.rank == device.rank && each.replica == device.replica; });
  return found == before.end() ? DeviceTelemetry{} : *found;
}

// Two events whose differences are rates: the newest one, and one that is at least `seconds` older once the run is.
class RecentRates {
 public:
  explicit RecentRates(double seconds) : apart_(seconds) {}

  void add(const TelemetryEvent& event) {
    if (middle_.graph != event.graph || middle_.seconds > event.seconds) before_ = middle_ = event;
    if (event.seconds - middle_.seconds >= apart_) before_ = std::exchange(middle_, event);
    now_ = event;
  }
  void end() { before_ = {}; }  // rates are now those of the whole run

  const TelemetryEvent& now() const { return now_; }
  const TelemetryEvent& before() const { return before_; }
  double seconds() const { return now_.seconds - before_.seconds; }  // between them

 private:
  double apart_;
  TelemetryEvent now_, middle_, before_;
};

}  // namespace millrace
