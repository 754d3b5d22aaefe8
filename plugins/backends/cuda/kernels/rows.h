// Computations over the channels of a row: softmax, local response normalisation (lrn.h).
#pragma once

#include <math.h>

#include "lrn.h"
#include "portable.h"

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

// dx = y * (dy - sum(dy * y)), added to dx if requested. dx may be dy.
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

// ---- Bodies ----

// Calls body(first channel, its eight values) for this lane's packs of a row; values after the last channel are -inf.
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

}  // namespace millrace::cuda
