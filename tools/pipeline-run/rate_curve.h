// The measurements of a range test of learning rates (Smith, arXiv 1506.01186), and the proposed rate.
#pragma once

#include <span>
#include <vector>

namespace millrace {

struct RatePoint {
  double rate = 0, loss = 0;
  double smoothed = 0;  // the mean of the losses at this rate and at equally many smaller and larger ones
};

// Losses at rates that rise. The smoothed loss falls into a valley, and grows where rates are too large. The proposed rate is
// where the loss stops falling: where nine tenths of the fall are reached, or all of it except noise. Larger rates gain little,
// and come close to harmful ones. The distance to the lowest point depends on the valley: large on a wide floor, small before a
// steep rise.
//
// A running average, which range tests often use, shifts each loss to a rate several times as large, because it remembers earlier
// steps. Proposing a tenth of the rate at its lowest point compensates for that, by the same factor for every network.
//
// The first losses are at rates too small to learn anything, and differ only by their batches. Nothing is proposed unless the
// lowest smoothed loss is below them by more than that, or by a little if larger rates then make the loss clearly worse.
class RateCurve {
 public:
  void add(double rate, double loss);

  std::span<const RatePoint> points() const { return points_; }
  const RatePoint* lowest() const;             // null if no loss was finite
  bool exploded() const { return exploded_; }  // the latest losses are not finite, or four times their lowest average
  double proposal() const;                     // 0 if none
  bool falls_at_the_end() const;               // larger rates may be better still
  bool falls_slightly() const;                 // the proposal is rough: the fall is small against the variation of single losses
  // Losses are almost 0: batches that were never seen are learned already.
  bool falls_to_nothing() const;

  // The level of the first losses.
  double level() const;
  double deviation() const;

 private:
  std::span<const RatePoint> first() const;
  std::span<const RatePoint> smoothed_well() const;  // points with enough losses around them
  double around(std::size_t point) const;
  double fall() const;   // from the first losses to the lowest smoothed loss
  double floor() const;  // the height of the valley's floor
  double clear() const;  // a significant fall

  std::vector<RatePoint> points_;
  double average_ = 0;  // exponential average of the losses so far, not yet corrected for its start at 0
  double least_ = 0;    // the smallest corrected average
  bool exploded_ = false;
};

}  // namespace millrace
