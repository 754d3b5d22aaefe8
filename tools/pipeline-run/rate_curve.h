// What a range test of learning rates (Smith, arXiv 1506.01186) has measured, and the rate that follows from it.
#pragma once

#include <span>
#include <vector>

namespace millrace {

struct RatePoint {
  double rate = 0, loss = 0, smoothed = 0;
};

// Losses at rates that rise. The rate to begin with is a tenth of that at the lowest smoothed loss. The first losses
// are at rates too small to learn anything, and differ by their batches alone. There is no rate where the lowest smoothed loss is
// not below them by more than that, or by a little where larger rates then make the loss clearly worse.
class RateCurve {
 public:
  void add(double rate, double loss);

  std::span<const RatePoint> points() const { return points_; }
  const RatePoint* lowest() const;  // null where no loss was a number
  bool exploded() const;            // the last smoothed loss is no number, or four times the lowest one
  double proposal() const;          // 0: none
  bool falls_at_the_end() const;    // larger rates than these may be better still
  bool falls_slightly() const;      // the proposal is rough: the fall is small beside what single losses differ by
  // Losses are 0, or as good as: batches that were never seen are learned already.
  bool falls_to_nothing() const;

  // Of the first losses.
  double level() const;
  double deviation() const;

 private:
  std::span<const RatePoint> first() const;
  double fall() const;   // of the lowest smoothed loss below the first losses
  double clear() const;  // a fall that is no chance

  std::vector<RatePoint> points_;
  double average_ = 0;  // exponential, of the losses so far, not yet corrected for its beginning at 0
};

}  // namespace millrace
