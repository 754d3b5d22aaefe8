// What is computed over the channels of a row: softmax, its cross-entropy with metrics, local response normalisation (lrn.h).
#pragma once

#include <math.h>

#include "lrn.h"
#include "portable.h"

#include "millrace/backend.h"

namespace millrace::cuda {

template <class T>
struct Softmax {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "softmax";
  static constexpr int kThreads = 32;
  const T* x = nullptr;
  T* y = nullptr;  // (rows, pitch); padding becomes 0; may be x
  std::int64_t rows = 0, channels = 0;

  std::int64_t size() const { return rows; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t row) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// dx = y * (dy - sum(dy * y)), added to dx if asked. dx may be dy.
template <class T>
struct SoftmaxBackward {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "softmax backward";
  static constexpr int kThreads = 32;
  const T *y = nullptr, *dy = nullptr;
  T* dx = nullptr;
  std::int64_t rows = 0, channels = 0;
  bool add = false;

  std::int64_t size() const { return rows; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t row) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

struct RowLoss {
  double loss = 0, weight = 0, correct = 0, correct5 = 0;  // loss, 1, is it right, is it among five: times the row's weight
};

// One sample's loss and gradient; definitions as in plugins/backends/cpu/kernels/loss.h: target of class j is
// (label == j) * (1 - smoothing) + smoothing / classes, of a mixed image share * (label == j) + (1 - share) * (second == j) in
// place of (label == j); gradient = weight / normaliser * (softmax - target), 0 where the weight is 0; top-k counts ties as
// there. REQUIRES: labels of rows with weight lie in [0, classes).
struct CrossEntropy {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "cross entropy";
  static constexpr int kThreads = 256;
  const float* logits = nullptr;                                   // (rows, pitch_of(classes))
  const std::int32_t *labels = nullptr, *second_labels = nullptr;  // (rows); second null where nobody mixes
  const float *weights = nullptr, *shares = nullptr;               // (rows); weights null: 1; shares null where nobody mixes
  float* gradient = nullptr;   // (rows, pitch), padding 0; null: not wanted; may be the logits
  RowLoss* results = nullptr;  // (rows)
  std::int64_t rows = 0, classes = 0;
  double label_smoothing = 0, normaliser = 1;

  std::int64_t size() const { return rows; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t row) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// The sums over rows, in an order that depends on nothing but their number.
struct SumLosses {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "sum losses";
  static constexpr int kThreads = 256;
  const RowLoss* results = nullptr;
  std::int64_t rows = 0;
  StepSums* out = nullptr;

  std::int64_t size() const { return 1; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t i) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// ---- Bodies ----

// body(first channel, its eight values) for the packs of a row that this lane takes; what is behind the last channel counts as
// -inf.
template <class T, class Group, class Body>
MILLRACE_HD void each_pack(const Group& group, const T* row, std::int64_t channels, const Body& body) {
  for (std::int64_t first = group.lane() * kPack; first < channels; first += group.size() * kPack) {
    float values[kPack];
    load(row + first, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = first + k < channels ? values[k] : -INFINITY;
    body(first, values);
  }
}

template <class T>
template <class Group>
MILLRACE_HD void Softmax<T>::operator()(const Group& group, std::int64_t row) const {
  const std::int64_t at = row * pitch_of(channels);
  float largest = -INFINITY, sum = 0;
  each_pack(group, x + at, channels, [&](std::int64_t, const float(&values)[kPack]) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) largest = fmaxf(largest, values[k]);
  });
  largest = group.largest(largest);
  each_pack(group, x + at, channels, [&](std::int64_t, const float(&values)[kPack]) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum += expf(values[k] - largest);
  });
  const float share = 1.0F / group.sum(sum);
  each_pack(group, x + at, channels, [&](std::int64_t first, const float(&values)[kPack]) {
    float result[kPack];
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) result[k] = first + k < channels ? expf(values[k] - largest) * share : 0.0F;
    store(y + at + first, result);
  });
}
template <class T>
template <class Visitor>
void Softmax<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * pitch_of(channels));
  visit_write(v, y, rows * pitch_of(channels));
}

template <class T>
template <class Group>
MILLRACE_HD void SoftmaxBackward<T>::operator()(const Group& group, std::int64_t row) const {
  const std::int64_t at = row * pitch_of(channels), end = at + pitch_of(channels), step = group.size() * kPack;
  float total = 0;
  for (std::int64_t i = at + group.lane() * kPack; i < end; i += step) {
    float probability[kPack], gradient[kPack];
    load(y + i, probability);
    load(dy + i, gradient);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) total += probability[k] * gradient[k];
  }
  total = group.sum(total);
  for (std::int64_t i = at + group.lane() * kPack; i < end; i += step) {
    float probability[kPack], gradient[kPack];
    load(y + i, probability);
    load(dy + i, gradient);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) gradient[k] = probability[k] * (gradient[k] - total);
    store(dx + i, gradient, add);
  }
}
template <class T>
template <class Visitor>
void SoftmaxBackward<T>::accesses(Visitor& v) const {
  visit_read(v, y, rows * pitch_of(channels));
  visit_read(v, dy, rows * pitch_of(channels));
  visit_result(v, dx, rows * pitch_of(channels), add);
}

template <class Group>
MILLRACE_HD void CrossEntropy::operator()(const Group& group, std::int64_t row) const {
  const std::int64_t pitch = pitch_of(classes);
  const float* const from = logits + row * pitch;
  float* const to = gradient == nullptr ? nullptr : gradient + row * pitch;
  const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[row]);
  if (weight == 0) {
    for (std::int64_t j = group.lane(); to != nullptr && j < pitch; j += group.size()) to[j] = 0.0F;
    if (group.lane() == 0) results[row] = {};
    return;
  }
  const double share = shares == nullptr ? 1.0 : static_cast<double>(shares[row]);
  const std::int64_t label = labels[row], second = share < 1 ? second_labels[row] : label;
  const std::int64_t named = share < 0.5 ? second : label;  // what counts for top-k
  // Read by all lanes before the first of them writes: the gradient may lie over the logits.
  const float of_label = from[label], of_second = from[second], mine = share < 0.5 ? of_second : of_label;
  // How many come before it when sorted from the largest; equal ones keep their order. NaN ranks above everything, so that a
  // diverged network does not look right.
  std::int32_t before = 0;
  float largest = -INFINITY;
  double total = 0;
  for (std::int64_t j = group.lane(); j < classes; j += group.size()) {
    const float value = from[j];
    before += !(value <= mine) || (j < named && value == mine) ? 1 : 0;
    largest = fmaxf(largest, value);
    total += static_cast<double>(value);
  }
  before = group.sum(before);
  largest = group.largest(largest);
  total = group.sum(total);
  double sum = 0;
  for (std::int64_t j = group.lane(); j < classes; j += group.size()) sum += static_cast<double>(expf(from[j] - largest));
  sum = group.sum(sum);
  if (group.lane() == 0) {
    const double target = share * static_cast<double>(of_label) + (share < 1 ? (1 - share) * static_cast<double>(of_second) : 0);
    const double loss = static_cast<double>(largest) + log(sum) - (1 - label_smoothing) * target -
                        (label_smoothing == 0 ? 0 : label_smoothing * total / static_cast<double>(classes));
    results[row] = {weight * loss, weight, before < 1 ? weight : 0, before < 5 ? weight : 0};
  }
  if (to == nullptr) return;
  const double uniform = label_smoothing / static_cast<double>(classes), scale = weight / normaliser, inverse = 1 / sum;
  for (std::int64_t j = group.lane(); j < pitch; j += group.size()) {
    const double meant = (j == label ? share : 0) + (j == second ? 1 - share : 0);
    const double probability = j < classes ? static_cast<double>(expf(from[j] - largest)) * inverse : 0;
    to[j] = j < classes ? static_cast<float>(scale * (probability - meant * (1 - label_smoothing) - uniform)) : 0.0F;
  }
}
template <class Visitor>
void CrossEntropy::accesses(Visitor& v) const {
  visit_read(v, logits, rows * pitch_of(classes));
  visit_read(v, labels, rows);
  visit_read(v, second_labels, rows);
  visit_read(v, weights, rows);
  visit_read(v, shares, rows);
  visit_write(v, gradient, rows * pitch_of(classes));
  visit_write(v, results, rows);
}

template <class Group>
MILLRACE_HD void SumLosses::operator()(const Group& group, std::int64_t) const {
  RowLoss sum;
  for (std::int64_t row = group.lane(); row < rows; row += group.size()) {
    const RowLoss more = results[row];
    sum.loss += more.loss;
    sum.weight += more.weight;
    sum.correct += more.correct;
    sum.correct5 += more.correct5;
  }
  const double loss = group.sum(sum.loss), weight = group.sum(sum.weight);
  const double correct = group.sum(sum.correct), correct5 = group.sum(sum.correct5);
  if (group.lane() != 0) return;
  out->loss = loss;
  out->weight = weight;
  out->correct = correct;
  out->correct5 = correct5;
}
template <class Visitor>
void SumLosses::accesses(Visitor& v) const {
  visit_read(v, results, rows);
  visit_write(v, out, 1);
}

}  // namespace millrace::cuda
