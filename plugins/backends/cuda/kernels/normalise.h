// Batch normalisation in training and inference, forward and backward, with the addition and the activation after it.
//
//   Moments, FinishMoments, Normalise                                  forward in training
//   RunningMoments, Normalise                                          inference
//   NormaliseMaxPool                                                   instead of Normalise if a max pooling follows the
//                                                                      ReLU
//   NormaliseBackwardSums, FinishSums, NormaliseBackward               backward
//
// Sums are finished by a separate kernel (FinishMoments, FinishSums) or, with tickets, by their last block (last_block.h).
//
// Maps are (rows, row_packs * 8) with rows = N * H * W. Arrays by channel have row_packs * 8 elements, float32, zero after the
// last channel. pre = (x - mean) * factor + shift [+ residual], with factor = scale / sqrt(variance + epsilon); y =
// activation(pre).
#pragma once

#include <math.h>

#include "activation.h"
#include "chunks.h"
#include "columns.h"
#include "last_block.h"
#include "pool.h"
#include "portable.h"

namespace millrace::cuda {

// 0 if nothing varies and epsilon is 0: the padding after the last channel must stay zero.
MILLRACE_HD float inverse_deviation(float variance, float epsilon) {
  const float square = variance + epsilon;
#if defined(__CUDA_ARCH__)
  return square == 0 ? 0.0F : rsqrtf(square);
#else
  return square == 0 ? 0.0F : 1.0F / sqrtf(square);
#endif
}

// pre = (x - mean) * factor + shift for eight channels.
struct NormaliseChannels {
  float mean[kPack], factor[kPack], shift[kPack];

  template <class Element>
  MILLRACE_HD static NormaliseChannels of(const Element& element, std::int64_t pack) {
    NormaliseChannels result{};
    load_constant(element.mean + pack * kPack, result.mean);
    load_constant(element.factor + pack * kPack, result.factor);
    if (element.shift != nullptr) load_constant(element.shift + pack * kPack, result.shift);
    return result;
  }
  MILLRACE_HD void centre(float (&x)[kPack]) const { MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) x[k] -= mean[k]; }
  // pre from the centred values
  MILLRACE_HD void scale(const float (&centred)[kPack], float (&pre)[kPack]) const {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) pre[k] = centred[k] * factor[k] + shift[k];
  }
};

template <class T>
MILLRACE_HD void add_pack(const Pack<T>& pack, float (&values)[kPack]) {
  float more[kPack];
  unpack(pack, more);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] += more[k];
}

// Bit k: channel k is above 0.
template <class T>
MILLRACE_HD std::uint8_t positive_channels(const Pack<T>& pack) {
  unsigned bits = 0;
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) bits |= (to_float(pack.values[k]) > 0 ? 1U : 0U) << k;
  return static_cast<std::uint8_t>(bits);
}

// One channel: mean, biased variance and factor from the partial sums, added in double in the order of chunks; running statistics
// are updated (with the unbiased variance). REQUIRES: rows > 0.
template <class T>
struct FinishMoments {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "finish moments";
  static constexpr int kThreads = 256;
  const T* x = nullptr;  // for the pivots
  const float* partial = nullptr;
  std::int64_t rows = 0, packs = 0;
  float epsilon = 0, momentum = 0;
  const float* scale = nullptr;  // null: 1
  float *mean = nullptr, *variance = nullptr, *factor = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;  // null: not kept

  std::int64_t size() const { return packs * kPack; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t channel) const {
    double sums[2];
    join_chunks(group, {partial, chunks_of(rows, packs), 2, packs * kPack}, 0, channel, sums);
    if (group.lane() == 0) take(channel, sums);
  }
  // the complete sums
  MILLRACE_HD void take(std::int64_t channel, const double (&sums)[2]) const {
    const auto count = static_cast<double>(rows), share = static_cast<double>(momentum);
    const double offset = sums[0] / count, biased = (sums[1] - sums[0] * offset) / count;
    const double average = static_cast<double>(to_float(x[channel])) + offset;
    const auto kept = static_cast<float>(biased < 0 ? 0 : biased);  // NaN stays NaN
    mean[channel] = static_cast<float>(average);
    variance[channel] = kept;
    factor[channel] = inverse_deviation(kept, epsilon) * (scale == nullptr ? 1.0F : scale[channel]);
    if (running_mean == nullptr || !isfinite(mean[channel]) || !isfinite(kept)) return;  // it would stay non-finite
    const double unbiased = rows > 1 ? biased * count / (count - 1) : biased;
    const double old_mean = static_cast<double>(running_mean[channel]), old = static_cast<double>(running_variance[channel]);
    running_mean[channel] = static_cast<float>((1 - share) * old_mean + share * average);
    running_variance[channel] = static_cast<float>((1 - share) * old + share * (unbiased < 0 ? 0 : unbiased));
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, packs * kPack);
    visit_read(v, partial, chunks_of(rows, packs) * 2 * packs * kPack);
    visit_results(v);
  }
  // all except x and partial
  template <class Visitor>
  void visit_results(Visitor& v) const {
    const std::int64_t channels = packs * kPack;
    visit_read(v, scale, channels);
    visit_write(v, mean, channels);
    visit_write(v, variance, channels);
    visit_write(v, factor, channels);
    visit_result(v, running_mean, channels, true);
    visit_result(v, running_variance, channels, true);
  }
};

// Per channel, over rows: sum of (x - pivot) and of its square; pivot is the channel's value in row 0 (so that variances are
// accurate for means far from zero).
template <class T>
struct Moments {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "moments";
  static constexpr int kSums = 2;
  const T* x = nullptr;
  std::int64_t rows = 0, packs = 0;
  float* partial = nullptr;  // (chunks_of(rows, packs), kSums, packs * 8)
  LastBlock last = {};
  FinishMoments<T> finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, rows * packs * kPack);
    visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
    visit_last_block(v, *this);
  }
};

// factor from a running variance.
struct RunningMoments {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "running moments";
  const float *variance = nullptr, *scale = nullptr;  // scale null: 1
  float epsilon = 0;
  float* factor = nullptr;
  std::int64_t channels = 0;  // with padding

  std::int64_t size() const { return channels; }
  MILLRACE_HD void operator()(std::int64_t channel) const {
    factor[channel] = inverse_deviation(variance[channel], epsilon) * (scale == nullptr ? 1.0F : scale[channel]);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, variance, channels);
    visit_read(v, scale, channels);
    visit_write(v, factor, channels);
  }
};

template <class T>
struct Normalise {
  static constexpr Form kForm = Form::columns;
  static constexpr const char* kName = "normalise";
  const T *x = nullptr, *residual = nullptr;                         // residual null: none
  T* y = nullptr;                                                    // may be x or residual
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;
  std::uint8_t* positive = nullptr;  // (rows, packs): bit k is set if channel k of the pack of y is above 0. Null: not wanted

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, rows * packs * kPack);
    visit_read(v, residual, rows * packs * kPack);
    for (const float* array : {mean, factor, shift}) visit_read(v, array, packs * kPack);
    visit_write(v, y, rows * packs * kPack);
    visit_write(v, positive, rows * packs);
  }
};

// y = the max pooling of relu(pre), without storing relu(pre), which is rounded to T before the comparison.
template <class T>
struct NormaliseMaxPool {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "normalise and max pool";
  const T* x = nullptr;                                              // (n, h, w, packs * 8)
  T* y = nullptr;                                                    // (n, out_h, out_w, packs * 8)
  std::uint8_t* index = nullptr;                                     // as y, see MaxPool; null: not wanted
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  PoolExtents at;
  PoolWindow window;

  std::int64_t size() const { return at.n * at.out_h * at.out_w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const PoolPlace place = PoolPlace::of(i, at.out_h, at.out_w, at.packs);
    const NormaliseChannels channels = NormaliseChannels::of(*this, place.pack);
    const auto prepare = [&](float(&values)[kPack]) {
      channels.centre(values);
      channels.scale(values, values);
      activate(Activation::relu, values);
      unpack(pack_of<T>(values), values);
    };
    WindowMaximum::of(x, at, window, place, prepare).store_at(i * kPack, y, index);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, at.n * at.h * at.w * at.packs * kPack);
    for (const float* array : {mean, factor, shift}) visit_read(v, array, at.packs * kPack);
    visit_write(v, y, size() * kPack);
    visit_write(v, index, size() * kPack);
  }
};

// out[s][channel] = sum over chunks of partial[chunk][s][channel], in double, in order; with a variance the second is divided by
// the deviation.
struct FinishSums {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "finish sums";
  static constexpr int kThreads = 256;
  const float* partial = nullptr;
  std::int64_t chunks = 0, channels = 0;  // channels with padding
  int sums = 1;                           // 1 or 2
  float* out[2] = {nullptr, nullptr};
  const float* variance = nullptr;  // null: none
  float epsilon = 0;

  std::int64_t size() const { return channels * sums; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t i) const {
    const Division place = divide(i, channels);
    double sum[1];
    join_chunks(group, {partial, chunks, sums, channels}, place.quotient, place.remainder, sum);
    if (group.lane() == 0) take(place.remainder, static_cast<int>(place.quotient), sum[0]);
  }
  // one complete sum
  MILLRACE_HD void take(std::int64_t channel, int which, double sum) const {
    const bool by_deviation = which == 1 && variance != nullptr;
    (which == 0 ? out[0] : out[1])[channel] =
        static_cast<float>(sum) * (by_deviation ? inverse_deviation(variance[channel], epsilon) : 1.0F);
  }
  template <int kSums>
  MILLRACE_HD void take(std::int64_t channel, const double (&sums_of_channel)[kSums]) const {
    MILLRACE_UNROLL for (int s = 0; s < kSums; ++s) take(channel, s, sums_of_channel[s]);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, partial, chunks * sums * channels);
    visit_results(v);
  }
  // all except partial
  template <class Visitor>
  void visit_results(Visitor& v) const {
    if (sums == 2) visit_read(v, variance, channels);
    for (int s = 0; s < sums; ++s) visit_write(v, out[s], channels);
  }
};

// With g = dy * activation'(pre): per channel sum g and sum g * (x - mean). `masked` (null, or dy itself) becomes g. pre
// is computed again; where a residual was added its sign is taken from `positive` or y (ReLU), or the residual is needed (GELU).
// With `pooled`, of a ReLU with nothing added, dy is what a max pooling after it passes on.
template <class T>
struct NormaliseBackwardSums {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "normalise backward sums";
  static constexpr int kSums = 2;
  const T *x = nullptr, *dy = nullptr;
  PooledGradient<T> pooled = {};              // instead of dy
  const T *y = nullptr, *residual = nullptr;  // after an addition: y for ReLU, residual for GELU
  const std::uint8_t* positive = nullptr;     // for ReLU, instead of y: written by Normalise
  T* masked = nullptr;
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;
  float* partial = nullptr;
  LastBlock last = {};
  FinishSums finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const {
    for (const T* map : {x, dy, y, residual}) visit_read(v, map, rows * packs * kPack);
    pooled.accesses(v);
    visit_read(v, positive, rows * packs);
    for (const float* array : {mean, factor, shift}) visit_read(v, array, packs * kPack);
    visit_write(v, masked, rows * packs * kPack);
    visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
    visit_last_block(v, *this);
  }
};

// dx = factor * (g - d_shift / rows - (x - mean) * inverse_deviation * d_scale / rows), added to dx if requested. dx may be dy.
// `pooled` as in NormaliseBackwardSums.
template <class T>
struct NormaliseBackward {
  static constexpr Form kForm = Form::columns;
  static constexpr const char* kName = "normalise backward";
  const T *x = nullptr, *dy = nullptr;
  PooledGradient<T> pooled = {};  // instead of dy
  T* dx = nullptr;
  const float *mean = nullptr, *variance = nullptr, *factor = nullptr, *shift = nullptr;
  const float *d_shift = nullptr, *d_scale = nullptr;
  float epsilon = 0;
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;  // none if dy is masked already
  bool add = false;

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const {
    for (const T* map : {x, dy}) visit_read(v, map, rows * packs * kPack);
    pooled.accesses(v);
    for (const float* array : {mean, variance, factor, shift, d_shift, d_scale}) visit_read(v, array, packs * kPack);
    visit_result(v, dx, rows * packs * kPack, add);
  }
};

// Per channel, the sum over rows: the gradient of a bias.
template <class T>
struct ColumnSums {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "column sums";
  static constexpr int kSums = 1;
  const T* x = nullptr;
  std::int64_t rows = 0, packs = 0;
  float* partial = nullptr;
  LastBlock last = {};
  FinishSums finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, rows * packs * kPack);
    visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
    visit_last_block(v, *this);
  }
};

// ---- The columns of these elements ----

template <class T>
struct MomentsColumn {
  using Element = Moments<T>;
  using Packs = Pack<T>;
  static constexpr int kAhead = rows_ahead<T>(4), kBlocks = 4;
  const Element& element;
  std::int64_t pack;
  float pivot[kPack];

  MILLRACE_HD MomentsColumn(const Element& of, std::int64_t at) : element(of), pack(at) {
    load_constant(of.x + at * kPack, pivot);
  }
  MILLRACE_HD Packs read(std::int64_t row) const { return fetch(element.x + pack_at(element, row, pack)); }
  MILLRACE_HD void use(std::int64_t, const Packs& x, float (&sums)[2][kPack]) const {
    float values[kPack];
    unpack(x, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      const float difference = values[k] - pivot[k];
      sums[0][k] += difference;
      sums[1][k] += difference * difference;
    }
  }
};
template <class T>
template <class Use>
auto Moments<T>::with_column(const Use& use) const {
  return use(ColumnType<MomentsColumn<T>>());
}

template <class T, Activation kActivation, bool kAdds>
struct NormaliseColumn {
  using Element = Normalise<T>;
  struct Packs {
    Pack<T> x, residual;
  };
  static constexpr int kAhead = rows_ahead<T>(kAdds ? 2 : 4), kBlocks = kActivation == Activation::gelu ? 2 : 4;
  const Element& element;
  std::int64_t pack;
  NormaliseChannels channels;

  MILLRACE_HD NormaliseColumn(const Element& of, std::int64_t at)
      : element(of), pack(at), channels(NormaliseChannels::of(of, at)) {}
  MILLRACE_HD Packs read(std::int64_t row) const {
    const std::int64_t at = pack_at(element, row, pack);
    Packs packs{fetch(element.x + at), {}};
    if constexpr (kAdds) packs.residual = fetch(element.residual + at);
    return packs;
  }
  MILLRACE_HD void use(std::int64_t row, const Packs& packs) const {
    float values[kPack];
    unpack(packs.x, values);
    channels.centre(values);
    channels.scale(values, values);
    if constexpr (kAdds) add_pack(packs.residual, values);
    activate(kActivation, values);
    const std::int64_t at = pack_at(element, row, pack);
    const Pack<T> y = pack_of<T>(values);
    *reinterpret_cast<Pack<T>*>(element.y + at) = y;
    if constexpr (kActivation == Activation::relu && kAdds) {
      if (element.positive != nullptr) element.positive[at / kPack] = positive_channels(y);
    }
  }
};
template <class T>
template <class Use>
auto Normalise<T>::with_column(const Use& use) const {
  return with_activation(activation, [&](auto kind) {
    return with_flag(residual != nullptr,
                     [&](auto adds) { return use(ColumnType<NormaliseColumn<T, kind.value, adds.value>>()); });
  });
}

// The source of the sign or value of pre.
enum class SignSource : std::uint8_t {
  x,     // pre is computed from it
  map,   // after an addition: y for ReLU, the residual for GELU
  bits,  // after an addition: `positive` for ReLU
};
struct Nothing {};

// kPooled: dy is gathered after a max pooling.
template <class T, Activation kActivation, SignSource kSignSource, bool kPooled = false>
struct NormaliseBackwardSumsColumn {
  using Element = NormaliseBackwardSums<T>;
  using Signs = std::conditional_t<kSignSource == SignSource::map, Pack<T>,
                                   std::conditional_t<kSignSource == SignSource::bits, std::uint8_t, Nothing>>;
  struct Packs {
    Pack<T> x, dy;
    Signs signs;
  };
  static constexpr int kAhead = rows_ahead<T>(kPooled ? 2 : 4), kBlocks = 2;
  const Element& element;
  std::int64_t pack;
  NormaliseChannels channels;

  MILLRACE_HD NormaliseBackwardSumsColumn(const Element& of, std::int64_t at)
      : element(of), pack(at), channels(NormaliseChannels::of(of, at)) {}
  MILLRACE_HD Packs read(std::int64_t row) const {
    const std::int64_t at = pack_at(element, row, pack);
    Packs packs;
    packs.x = fetch(element.x + at);
    if constexpr (kPooled)
      packs.dy = element.pooled.of_pixel(row, pack);
    else
      packs.dy = fetch(element.dy + at);
    if constexpr (kSignSource == SignSource::map)
      packs.signs = fetch((kActivation == Activation::relu ? element.y : element.residual) + at);
    if constexpr (kSignSource == SignSource::bits) packs.signs = fetch(element.positive + at / kPack);
    return packs;
  }
  MILLRACE_HD void use(std::int64_t row, const Packs& packs, float (&sums)[2][kPack]) const {
    float x[kPack], g[kPack];
    unpack(packs.x, x);
    unpack(packs.dy, g);
    channels.centre(x);
    slope(packs.signs, x, g);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      sums[0][k] += g[k];
      sums[1][k] += g[k] * x[k];
    }
    if (element.masked != nullptr) store(element.masked + pack_at(element, row, pack), g);
  }

 private:
  // g *= activation'(pre)
  MILLRACE_HD void slope(const Signs& signs, const float (&centred)[kPack], float (&g)[kPack]) const {
    if constexpr (kSignSource == SignSource::bits) {
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) g[k] *= (signs >> k & 1) != 0 ? 1.0F : 0.0F;
    } else {
      float before[kPack];
      if constexpr (kSignSource == SignSource::map && kActivation == Activation::relu) {
        unpack(signs, before);
      } else {
        channels.scale(centred, before);
        if constexpr (kSignSource == SignSource::map) add_pack(signs, before);
      }
      multiply_by_slope(kActivation, before, g);
    }
  }
};
template <class T>
template <class Use>
auto NormaliseBackwardSums<T>::with_column(const Use& use) const {
  return with_activation(activation, [&](auto kind) {
    constexpr Activation kKind = kind.value;
    if constexpr (kKind == Activation::none) {  // no signs are needed
      return use(ColumnType<NormaliseBackwardSumsColumn<T, kKind, SignSource::x>>());
    } else {
      if constexpr (kKind == Activation::relu) {
        if (pooled) return use(ColumnType<NormaliseBackwardSumsColumn<T, kKind, SignSource::x, true>>());
        if (positive != nullptr) return use(ColumnType<NormaliseBackwardSumsColumn<T, kKind, SignSource::bits>>());
      }
      if ((kKind == Activation::relu ? y : residual) == nullptr)
        return use(ColumnType<NormaliseBackwardSumsColumn<T, kKind, SignSource::x>>());
      return use(ColumnType<NormaliseBackwardSumsColumn<T, kKind, SignSource::map>>());
    }
  });
}

// dx = factor * g - ((x - mean) * by_x + offset): constants over the rows are multiplied in advance.
template <class T, Activation kActivation, bool kAdd, bool kPooled = false>
struct NormaliseBackwardColumn {
  using Element = NormaliseBackward<T>;
  struct Packs {
    Pack<T> x, dy, dx;
  };
  static constexpr int kAhead = rows_ahead<T>(kPooled ? 2 : 4), kBlocks = 2;
  const Element& element;
  std::int64_t pack;
  NormaliseChannels channels;
  float by_x[kPack], offset[kPack];

  MILLRACE_HD NormaliseBackwardColumn(const Element& of, std::int64_t at)
      : element(of), pack(at), channels(NormaliseChannels::of(of, at)) {
    float variance[kPack];
    load_constant(of.variance + at * kPack, variance);
    load_constant(of.d_scale + at * kPack, by_x);
    load_constant(of.d_shift + at * kPack, offset);
    const float share = 1.0F / static_cast<float>(of.rows);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      by_x[k] *= inverse_deviation(variance[k], of.epsilon) * share * channels.factor[k];
      offset[k] *= share * channels.factor[k];
    }
  }
  MILLRACE_HD Packs read(std::int64_t row) const {
    const std::int64_t at = pack_at(element, row, pack);
    Packs packs{fetch(element.x + at), {}, {}};
    if constexpr (kPooled)
      packs.dy = element.pooled.of_pixel(row, pack);
    else
      packs.dy = fetch(element.dy + at);
    if constexpr (kAdd) packs.dx = fetch(element.dx + at);
    return packs;
  }
  MILLRACE_HD void use(std::int64_t row, const Packs& packs) const {
    float x[kPack], g[kPack], before[kPack];
    unpack(packs.x, x);
    unpack(packs.dy, g);
    channels.centre(x);
    channels.scale(x, before);
    multiply_by_slope(kActivation, before, g);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) g[k] = channels.factor[k] * g[k] - (x[k] * by_x[k] + offset[k]);
    if constexpr (kAdd) add_pack(packs.dx, g);
    store(element.dx + pack_at(element, row, pack), g);
  }
};
template <class T>
template <class Use>
auto NormaliseBackward<T>::with_column(const Use& use) const {
  return with_activation(activation, [&](auto kind) {
    return with_flag(add, [&](auto adds) {
      if constexpr (kind.value == Activation::relu) {
        if (pooled) return use(ColumnType<NormaliseBackwardColumn<T, kind.value, adds.value, true>>());
      }
      return use(ColumnType<NormaliseBackwardColumn<T, kind.value, adds.value>>());
    });
  });
}

template <class T>
struct ColumnSumsColumn {
  using Element = ColumnSums<T>;
  using Packs = Pack<T>;
  static constexpr int kAhead = rows_ahead<T>(4), kBlocks = 4;
  const Element& element;
  std::int64_t pack;

  MILLRACE_HD ColumnSumsColumn(const Element& of, std::int64_t at) : element(of), pack(at) {}
  MILLRACE_HD Packs read(std::int64_t row) const { return fetch(element.x + pack_at(element, row, pack)); }
  MILLRACE_HD void use(std::int64_t, const Packs& x, float (&sums)[1][kPack]) const { add_pack(x, sums[0]); }
};
template <class T>
template <class Use>
auto ColumnSums<T>::with_column(const Use& use) const {
  return use(ColumnType<ColumnSumsColumn<T>>());
}

}  // namespace millrace::cuda
