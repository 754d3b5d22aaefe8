// What a range test of learning rates (Smith, arXiv 1506.01186) has measured, and the rate that follows from it.
#pragma once

#include <span>
#include <vector>

namespace millrace {

struct RatePoint {
  double rate = 0, loss = 0;
  double smoothed = 0;  // the mean of the losses at this rate and at as many smaller as larger ones
};

// Losses at rates that rise. The smoothed loss falls into a valley, and grows where rates are too large. The rate to begin with
// is where the loss stops falling: there nine tenths of the fall are reached, or all of it but what is chance. Larger
// rates gain little, and come near those that do harm. How far below the lowest point that is depends on the valley: on a wide
// floor far, before a steep rise little.
//
// An average of the losses so far, which range tests often take, shows each loss at a rate several times as large: there is as
// much between losses at steps that an average remembers. A tenth of the rate at its lowest point, which is then proposed, makes
// up for that, by as much for every network.
//
// The first losses are at rates too small to learn anything, and differ by their batches alone. There is no rate where the lowest
// smoothed loss is not below them by more than that, or by a little where larger rates then make the loss clearly worse.
class RateCurve {
 public:
  void add(double rate, double loss);

  std::span<const RatePoint> points() const { return points_; }
  const RatePoint* lowest() const;             // null where no loss was a number
  bool exploded() const { return exploded_; }  // the losses of late are no numbers, or four times their lowest average
  double proposal() const;                     // 0: none
  bool falls_at_the_end() const;               // larger rates than these may be better still
  bool falls_slightly() const;                 // the proposal is rough: the fall is small beside what single losses differ by
  // Losses are 0, or as good as: batches that were never seen are learned already.
  bool falls_to_nothing() const;

  // The level of the first losses.
  double level() const;
  double deviation() const;

 private:
  std::span<const RatePoint> first() const;
  std::span<const RatePoint> smoothed_well() const;  // points with enough losses around them
  double around(std::size_t point) const;
  double fall() const;   // of the lowest smoothed loss below the first losses
  double floor() const;  // the height of the valley's floor
  double clear() const;  // a fall that is no chance

  std::vector<RatePoint> points_;
  double average_ = 0;  // exponential, of the losses so far, not yet corrected for its beginning at 0
  double least_ = 0;    // that the corrected one was
  bool exploded_ = false;
};

}  // namespace millrace
