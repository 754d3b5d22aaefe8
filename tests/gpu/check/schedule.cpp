#include "schedule.h"

#include <numeric>

namespace millrace::gpu {

Schedule::Schedule(std::vector<PartTime> parts, double seconds) : parts_(std::move(parts)) {
  const double whole =
      std::accumulate(parts_.begin(), parts_.end(), 0.0, [](double sum, const PartTime& part) { return sum + part.share; });
  double sum = 0;
  for (const PartTime& part : parts_) {
    sum += part.share;
    deadlines_.push_back(seconds * sum / whole);
  }
}

double Schedule::seconds_for(std::size_t index, double used) const {
  const double left = deadlines_.at(index) - used;
  return left >= parts_.at(index).least ? left : 0;
}

}  // namespace millrace::gpu
