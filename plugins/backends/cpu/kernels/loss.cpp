#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "millrace/error.h"

namespace millrace::cpu {
namespace {

struct RowResult {
  double loss = 0;
  bool correct = false, correct5 = false;
};

// How many logits come before the label's when sorted from the largest; equal ones keep their order. A NaN in the row ranks
// above everything, so that a diverged network does not look right.
std::int64_t rank_of(const float* logits, std::int64_t classes, std::int64_t label) {
  const float mine = logits[label];
  std::int64_t rank = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    rank += !(logits[j] <= mine) || (j < label && logits[j] == mine) ? 1 : 0;
  }
  return rank;
}

float share_of(const CrossEntropy& a, std::int64_t row) { return a.shares == nullptr ? 1.0F : a.shares[row]; }

RowResult row_loss(const CrossEntropy& a, std::int64_t row, double weight) {
  const float* const logits = a.logits + row * a.classes;
  const double share = share_of(a, row);
  const std::int64_t label = a.labels[row], second = share < 1 ? a.second_labels[row] : label;
  const double classes = static_cast<double>(a.classes), uniform = a.label_smoothing / classes;
  RowResult result;
  const std::int64_t rank = rank_of(logits, a.classes, share < 0.5 ? second : label);
  result.correct = rank < 1;
  result.correct5 = rank < 5;

  const double largest = *std::max_element(logits, logits + a.classes);
  double sum = 0, mean = 0;
  for (std::int64_t j = 0; j < a.classes; ++j) {
    sum += std::exp(logits[j] - largest);
    mean += logits[j];
  }
  const double normaliser = largest + std::log(sum);
  const double named = share < 1 ? share * logits[label] + (1 - share) * logits[second] : logits[label];
  result.loss = normaliser - (1 - a.label_smoothing) * named - a.label_smoothing * mean / classes;
  if (a.gradient != nullptr) {
    float* const gradient = a.gradient + row * a.classes;
    const double factor = weight / a.normaliser;
    for (std::int64_t j = 0; j < a.classes; ++j) {
      const double named_share = (j == label ? share : 0) + (j == second ? 1 - share : 0);
      const double target = named_share * (1 - a.label_smoothing) + uniform;
      gradient[j] = static_cast<float>(factor * (std::exp(logits[j] - normaliser) - target));
    }
  }
  return result;
}

void check_label(const CrossEntropy& a, std::int64_t row, std::int32_t label) {
  if (label >= 0 && label < a.classes) return;
  fail(ErrorKind::data, "row {} of the batch has label {}, but the network's output has {} classes (0 to {})", row, label,
       a.classes, a.classes - 1);
}

}  // namespace

StepSums cross_entropy(const CrossEntropy& a) {
  const auto weight_of = [&](std::int64_t row) { return a.weights == nullptr ? 1.0 : static_cast<double>(a.weights[row]); };
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (weight_of(row) == 0) continue;
    check_label(a, row, a.labels[row]);
    if (share_of(a, row) < 1) check_label(a, row, a.second_labels[row]);
  }
  std::vector<RowResult> results(static_cast<std::size_t>(a.rows));
#pragma omp parallel for schedule(static) if (a.rows * a.classes > 16384)
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const double weight = weight_of(row);
    if (weight != 0) {
      results[static_cast<std::size_t>(row)] = row_loss(a, row, weight);
    } else if (a.gradient != nullptr) {
      std::fill_n(a.gradient + row * a.classes, a.classes, 0.0F);
    }
  }
  StepSums sums;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const RowResult& result = results[static_cast<std::size_t>(row)];
    const double weight = weight_of(row);
    sums.loss += weight * result.loss;
    sums.weight += weight;
    sums.correct += result.correct ? weight : 0;
    sums.correct5 += result.correct5 ? weight : 0;
  }
  return sums;
}

}  // namespace millrace::cpu
