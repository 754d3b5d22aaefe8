// Softmax cross-entropy with label smoothing over rows of logits, and the metrics that come with it.
#pragma once

#include <cstdint>

#include "millrace/backend.h"

namespace millrace::cpu {

// Target of class j: (label == j) * (1 - s) + s / classes. Loss of a row: -sum target * log softmax(logits).
// Of a mixed image the target is share * (label == j) + (1 - share) * (second label == j) in place of (label == j), and the one
// with the larger share counts for top-k (of equal ones the first).
// A row's gradient is weight / normaliser * (softmax - target). Rows with weight 0 have gradient 0 whatever their label.
// top-k: the label counts when fewer than k logits are greater, or equal and before it.
struct CrossEntropy {
  const float* logits = nullptr;         // (rows, classes)
  const std::int32_t* labels = nullptr;  // (rows)
  const float* weights = nullptr;        // (rows); null: 1
  std::int64_t rows = 0, classes = 0;
  double label_smoothing = 0;
  double normaliser = 1;                        // of the gradient alone; the sums are not divided
  float* gradient = nullptr;                    // (rows, classes); null: not wanted; may be the logits
  const std::int32_t* second_labels = nullptr;  // (rows), where the share is below 1
  const float* shares = nullptr;                // (rows), of `labels`, 0 ... 1; null: all 1
};
// Sums in double, in row order, whatever the number of threads. Throws Error(data) for a label outside [0, classes) that has
// weight.
StepSums cross_entropy(const CrossEntropy& arguments);

}  // namespace millrace::cpu
