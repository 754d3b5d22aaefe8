// Statistics of columns of target numbers.
#pragma once

#include <cstdint>

namespace millrace {

// One column of numbers. Mean and deviation by Welford's method, merged by Chan's: accurate for large numbers that differ little.
class NumberColumn {
 public:
  void add(double value);
  void add(const NumberColumn& other);

  std::uint64_t count() const { return count_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double deviation() const;

 private:
  std::uint64_t count_ = 0;
  double least_ = 0, most_ = 0, mean_ = 0;
  double squares_ = 0;  // sum of squared differences from the mean
};

}  // namespace millrace
