// One curve of a run, for pages that draw it, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// Keeps at most kMax points. Each covers `stride` neighbouring values and has their mean, minimum and maximum, so a spike of one
// step stays visible. When all are used, neighbours are merged and the stride doubles.
//
// The smoothed value is an exponential mean over steps, corrected for its initial bias. It uses every value before merging, so
// late and early readers see the same curve. Not thread-safe.
class Course {
 public:
  static constexpr std::size_t kMax = 1024;  // even

  // `memory`: steps after which a value has lost 63 % of its weight; 0: no smoothing.
  explicit Course(double memory = 0) : memory_(memory) {}

  void add(std::uint64_t step, double value);  // a value that is not finite leaves a gap

  struct Point {
    std::uint64_t step = 0;  // the last step in it
    std::uint64_t values = 0, finite = 0;
    double sum = 0, least = 0, greatest = 0, smooth = 0;
  };
  const std::vector<Point>& points() const { return points_; }
  std::size_t size() const { return points_.size(); }
  bool empty() const { return points_.empty(); }
  std::uint64_t stride() const { return stride_; }
  // [[step,mean,least,greatest,smoothed],...] from the point `first` on; null if no value was finite.
  std::string json(std::size_t first = 0) const;

  // Index of the first point that changed since the last call; size() if none has.
  std::size_t take_changed();

 private:
  void smooth(std::uint64_t step, double value);
  void halve();

  double memory_;
  std::uint64_t stride_ = 1, last_step_ = 0;
  double mean_ = 0, weight_ = 0;  // exponential mean; mean_ / weight_ is free of bias
  std::vector<Point> points_;
  std::size_t changed_ = 0;
};

}  // namespace millrace
