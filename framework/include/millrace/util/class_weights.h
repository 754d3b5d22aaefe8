// Class weights, a parameter shared by losses: `class_weights = [0.5, 2, 1]`, one number per class, or `{ cat = 5 }`. The loss is
// then a weighted mean as in PyTorch's cross_entropy: the sum of w[class] * loss over the sum of w[class], with the classes of
// the targets. Without the parameter all weights are 1.
//
//   struct Params { std::vector<double> class_weights; };
//   d.params.add("class_weights", &Params::class_weights).text(ClassWeights::kText);
//
// A loss forwards its check(), constants() and weight() to this class, and its kernel reads LossPass::constant().
#pragma once

#include <vector>

#include "millrace/loss.h"

namespace millrace {

// Immutable and thread-safe.
class ClassWeights {
 public:
  // The text of the parameter. The framework replaces words and names by numbers before the loss is made.
  static constexpr const char* kText =
      "weight per class, or a table such as { cat = 5 }, default 1; \"balanced\": samples / (classes * samples of the class), "
      "over the first graph's data";
  // For losses of LossTarget::classes.
  static constexpr const char* kTextOfPixels =
      "weight per class, or a table such as { cat = 5 }, default 1; \"median-frequency\": from the first graph's label images "
      "(arXiv 1411.4734)";
  // Throws Error(usage) for a number below 0, or if all are 0.
  explicit ClassWeights(const std::vector<double>& numbers);

  // Throws Error(usage) unless there is one for each channel of the output.
  void check(const LossSetting& setting) const;
  std::vector<float> constants(std::int64_t channels) const;
  // Loss::weight() for LossTarget::labels and for LossTarget::classes. Places without a class weigh nothing. A mixed image weighs
  // share * w[label] + (1 - share) * w[second label].
  double of_labels(const Batch& batch, Share slots) const;
  double of_label_images(const Batch& batch, Share slots) const;

 private:
  double of(std::int64_t number) const;

  const std::vector<float> weights_;  // empty: 1
};

}  // namespace millrace
