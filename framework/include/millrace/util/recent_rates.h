// Recent growth rates of a run's counters, for observers that show them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "millrace/util/telemetry_event.h"

namespace millrace {

// Growth rate of a sum; 0 if it has decreased: it belongs to another graph, or was reset.
inline double growth_rate(double now, double before, double seconds) {
  return seconds > 0 && now > before ? (now - before) / seconds : 0;
}

template <class T>
T entry_of(const std::vector<T>& all, std::size_t index) {  // a new one if there is none
  return index < all.size() ? all[index] : T{};
}

// The device's earlier entry, or a new one. Ranks report in any order.
inline DeviceTelemetry earlier_of(const DeviceTelemetry& device, const std::vector<DeviceTelemetry>& before) {
  const auto found = std::ranges::find_if(
      before, [&](const DeviceTelemetry& each) { return each.rank == device.rank && each.replica == device.replica; });
  return found == before.end() ? DeviceTelemetry{} : *found;
}

// Two events whose differences give rates: the newest, and one at least `seconds` older once the run is long enough.
class RecentRates {
 public:
  explicit RecentRates(double seconds) : apart_(seconds) {}

  void add(const TelemetryEvent& event) {
    if (middle_.graph != event.graph || middle_.seconds > event.seconds) before_ = middle_ = event;
    if (event.seconds - middle_.seconds >= apart_) before_ = std::exchange(middle_, event);
    now_ = event;
  }
  void end() { before_ = {}; }  // rates now cover the whole run

  const TelemetryEvent& now() const { return now_; }
  const TelemetryEvent& before() const { return before_; }
  double seconds() const { return now_.seconds - before_.seconds; }  // between the two events

 private:
  double apart_;
  TelemetryEvent now_, middle_, before_;
};

}  // namespace millrace
