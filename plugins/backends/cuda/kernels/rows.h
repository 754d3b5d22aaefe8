// Computations over the channels of a row: softmax, local response normalisation.
#pragma once

#include <math.h>

#include "portable.h"

namespace millrace::cuda {

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
struct Softmax {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "softmax";
  static constexpr int kThreads = 32;
  const T* x = nullptr;
  T* y = nullptr;  // (rows, pitch); padding becomes 0; may be x
  std::int64_t rows = 0, channels = 0;

  std::int64_t size() const { return rows; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t row) const {
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
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, rows * pitch_of(channels));
    visit_write(v, y, rows * pitch_of(channels));
  }
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
  MILLRACE_HD void operator()(const Group& group, std::int64_t row) const {
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
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, y, rows * pitch_of(channels));
    visit_read(v, dy, rows * pitch_of(channels));
    visit_result(v, dx, rows * pitch_of(channels), add);
  }
};

// ---- Local response normalisation across channels ----

// s^-beta; 0 at 0, so that padding stays zero for any k.
MILLRACE_HD float inverse_power(float s, float beta) {
  if (s == 0) return 0.0F;
#if defined(__CUDA_ARCH__)
  if (beta == 0.75F) {  // the value in most networks with this layer; powf takes many times as long
    const float root = rsqrtf(s);
    return root * sqrtf(root);
  }
#endif
  return powf(s, -beta);
}

// sums[k] = sum over channels c = first + k - before ... first + k + after of value(c's pack, index in it), within the row.
// pack(p, values) loads the eight values of pack p.
template <class PackOf>
MILLRACE_HD void window_sums(std::int64_t pack, std::int64_t packs, std::int32_t before, std::int32_t after,
                             const PackOf& pack_of, float (&sums)[kPack]) {
  const std::int64_t reach_before = (before + kPack - 1) / kPack, reach_after = (after + kPack - 1) / kPack;
  const std::int64_t first = pack > reach_before ? pack - reach_before : 0;
  const std::int64_t last = pack + reach_after < packs ? pack + reach_after : packs - 1;
  for (std::int64_t p = first; p <= last; ++p) {
    float values[kPack];
    pack_of(p, values);
    const auto apart = static_cast<std::int32_t>((p - pack) * kPack);
    MILLRACE_UNROLL for (int j = 0; j < kPack; ++j) {
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
        const std::int32_t distance = apart + j - k;
        sums[k] += distance >= -before && distance <= after ? values[j] : 0.0F;
      }
    }
  }
}

// y = x * s^-beta, s = k + alpha / size * sum of x^2 over the `window` surrounding channels. s is kept for backward.
template <class T>
struct Lrn {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "lrn";
  const T* x = nullptr;
  T* y = nullptr;
  float* s = nullptr;  // (rows, packs * 8); null: not wanted
  std::int64_t rows = 0, packs = 0;
  std::int32_t window = 5;
  float alpha = 0, beta = 0, k = 1;

  std::int64_t size() const { return rows * packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division place = divide(i, packs);
    const T* const row = x + place.quotient * packs * kPack;
    float squares[kPack] = {}, values[kPack], bases[kPack];
    window_sums(
        place.remainder, packs, (window - 1) / 2, window / 2,
        [&](std::int64_t pack, float(&of)[kPack]) {
          load(row + pack * kPack, of);
          MILLRACE_UNROLL for (int j = 0; j < kPack; ++j) of[j] *= of[j];
        },
        squares);
    load(x + i * kPack, values);
    const float factor = alpha / static_cast<float>(window);
    MILLRACE_UNROLL for (int j = 0; j < kPack; ++j) {
      bases[j] = k + factor * squares[j];
      values[j] *= inverse_power(bases[j], beta);
    }
    store(y + i * kPack, values);
    if (s != nullptr) store(s + i * kPack, bases);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, size() * kPack);
    visit_write(v, y, size() * kPack);
    visit_write(v, s, size() * kPack);
  }
};

// dx_i = dy_i * s_i^-beta - 2 * alpha * beta / size * x_i * sum of dy_j * x_j * s_j^(-beta - 1) over the j whose windows contain
// i.
template <class T>
struct LrnBackward {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "lrn backward";
  const T *x = nullptr, *dy = nullptr;
  const float* s = nullptr;
  T* dx = nullptr;  // must not be dy
  std::int64_t rows = 0, packs = 0;
  std::int32_t window = 5;
  float alpha = 0, beta = 0;
  bool add = false;

  std::int64_t size() const { return rows * packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division place = divide(i, packs);
    const std::int64_t row = place.quotient * packs * kPack;
    float sums[kPack] = {}, values[kPack], gradient[kPack], bases[kPack];
    window_sums(
        place.remainder, packs, window / 2, (window - 1) / 2,
        [&](std::int64_t pack, float(&of)[kPack]) {
          load(x + row + pack * kPack, of);
          load(dy + row + pack * kPack, gradient);
          load(s + row + pack * kPack, bases);
          MILLRACE_UNROLL for (int j = 0; j < kPack; ++j) {
            const float share = bases[j] == 0 ? 0.0F : inverse_power(bases[j], beta) / bases[j];
            of[j] *= gradient[j] * share;
          }
        },
        sums);
    load(x + i * kPack, values);
    load(dy + i * kPack, gradient);
    load(s + i * kPack, bases);
    const float factor = 2 * alpha * beta / static_cast<float>(window);
    MILLRACE_UNROLL for (int j = 0; j < kPack; ++j) {
      gradient[j] = gradient[j] * inverse_power(bases[j], beta) - factor * values[j] * sums[j];
    }
    store(dx + i * kPack, gradient, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, size() * kPack);
    visit_read(v, dy, size() * kPack);
    visit_read(v, s, size() * kPack);
    visit_result(v, dx, size() * kPack, add);
  }
};

}  // namespace millrace::cuda
