// Which part runs when, and for how long. Pure.
#pragma once

#include <string>
#include <vector>

namespace millrace::gpu {

struct PartTime {
  std::string name;
  double share = 0;  // of the run's time; any unit
  double least = 0;  // seconds: with less the part would show nothing
};

// Each part has a deadline: the end of its share, counted from the run's begin. What a part leaves unused is therefore added to
// the next one, and a part that overruns takes time from the next one only.
class Schedule {
 public:
  Schedule(std::vector<PartTime> parts, double seconds);

  const std::vector<PartTime>& parts() const { return parts_; }
  // Seconds that parts()[index] may take when it begins after `used` seconds of the run. 0: it does not fit any more.
  double seconds_for(std::size_t index, double used) const;

 private:
  std::vector<PartTime> parts_;
  std::vector<double> deadlines_;
};

}  // namespace millrace::gpu
