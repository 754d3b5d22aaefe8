#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "parameters.h"

namespace millrace {

// RandAugment and TrivialAugment: random operations, with torchvision's lists and magnitudes (torchvision 0.14,
// transforms/autoaugment.py: RandAugment and TrivialAugmentWide; shears are about the first pixel's corner, as there). Changes of
// place use the stage's interpolation and border; torchvision's defaults are "nearest" and fill 0.
// Order of draws: for each of RandAugment's operations the operation, then its sign if signed; then for TrivialAugment the
// operation, the magnitude's bin if it has magnitudes, and the sign if signed.
class Policies {
 public:
  explicit Policies(const PolicyParams& params);  // errors: ErrorKind::usage
  bool any() const { return params_.rand_augment || params_.trivial_augment; }
  void apply(Canvas& canvas, Draw& draw) const;

 private:
  PolicyParams params_;
};

}  // namespace millrace
