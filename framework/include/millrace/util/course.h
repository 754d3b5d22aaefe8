// One curve of a run, for pages that draw it, in memory that does not grow with the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// Keeps at most kMost points. Each stands for `stride` neighbouring values and has their mean, least and greatest, so a spike of
// one step stays visible. When all are taken, neighbours are joined and the stride doubles.
//
// The smoothed value is an exponential mean over steps, without the bias of its beginning. It is taken from every value, before
// any is joined: a late reader sees the same curve as an early one. Not thread-safe.
class Course {
 public:
  static constexpr std::size_t kMost = 1024;  // even

  // `memory`: steps after which a value has lost 63 % of its weight; 0: nothing is smoothed.
  explicit Course(double memory = 0) : memory_(memory) {}

  void add(std::uint64_t step, double value);  // a value that is not finite leaves a gap

  struct Point {
    std::uint64_t step = 0;  // the last one in it
    std::uint64_t values = 0, finite = 0;
    double sum = 0, least = 0, greatest = 0, smooth = 0;
  };
  const std::vector<Point>& points() const { return points_; }
  std::size_t size() const { return points_.size(); }
  bool empty() const { return points_.empty(); }
  std::uint64_t stride() const { return stride_; }
  // [[step,mean,least,greatest,smoothed],...] from the point `first` on; null where no value was finite.
  std::string json(std::size_t first = 0) const;

  // The first point that has changed since the last call; size(): none has.
  std::size_t take_changed();

 private:
  void smooth(std::uint64_t step, double value);
  void halve();

  double memory_;
  std::uint64_t stride_ = 1, last_step_ = 0;
  double mean_ = 0, weight_ = 0;  // of the exponential mean; mean_ / weight_ has no bias
  std::vector<Point> points_;
  std::size_t changed_ = 0;
};

}  // namespace millrace
