// The kernels declared in normalise.h.
#pragma once

#include "normalise.h"

namespace millrace::cuda {

// ---- Statistics ----

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
template <class T>
template <class Visitor>
void Moments<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
  visit_last_block(v, *this);
}

template <class T>
template <class Group>
MILLRACE_HD void FinishMoments<T>::operator()(const Group& group, std::int64_t channel) const {
  double sums[2];
  join_chunks(group, {partial, chunks_of(rows, packs), 2, packs * kPack}, 0, channel, sums);
  if (group.lane() == 0) take(channel, sums);
}
template <class T>
MILLRACE_HD void FinishMoments<T>::take(std::int64_t channel, const double (&sums)[2]) const {
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
template <class T>
template <class Visitor>
void FinishMoments<T>::accesses(Visitor& v) const {
  visit_read(v, x, packs * kPack);
  visit_read(v, partial, chunks_of(rows, packs) * 2 * packs * kPack);
  visit_results(v);
}
template <class T>
template <class Visitor>
void FinishMoments<T>::visit_results(Visitor& v) const {
  const std::int64_t channels = packs * kPack;
  visit_read(v, scale, channels);
  visit_write(v, mean, channels);
  visit_write(v, variance, channels);
  visit_write(v, factor, channels);
  visit_result(v, running_mean, channels, true);
  visit_result(v, running_variance, channels, true);
}

MILLRACE_HD void RunningMoments::operator()(std::int64_t channel) const {
  factor[channel] = inverse_deviation(variance[channel], epsilon) * (scale == nullptr ? 1.0F : scale[channel]);
}
template <class Visitor>
void RunningMoments::accesses(Visitor& v) const {
  visit_read(v, variance, channels);
  visit_read(v, scale, channels);
  visit_write(v, factor, channels);
}

// ---- Forward ----

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
template <class T>
template <class Visitor>
void Normalise<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * packs * kPack);
  visit_read(v, residual, rows * packs * kPack);
  for (const float* array : {mean, factor, shift}) visit_read(v, array, packs * kPack);
  visit_write(v, y, rows * packs * kPack);
  visit_write(v, positive, rows * packs);
}

template <class T>
MILLRACE_HD void NormaliseMaxPool<T>::operator()(std::int64_t i) const {
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
template <class T>
template <class Visitor>
void NormaliseMaxPool<T>::accesses(Visitor& v) const {
  visit_read(v, x, at.n * at.h * at.w * at.packs * kPack);
  for (const float* array : {mean, factor, shift}) visit_read(v, array, at.packs * kPack);
  visit_write(v, y, size() * kPack);
  visit_write(v, index, size() * kPack);
}

// ---- Backward ----

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
template <class T>
template <class Visitor>
void NormaliseBackwardSums<T>::accesses(Visitor& v) const {
  for (const T* map : {x, dy, y, residual}) visit_read(v, map, rows * packs * kPack);
  pooled.accesses(v);
  visit_read(v, positive, rows * packs);
  for (const float* array : {mean, factor, shift}) visit_read(v, array, packs * kPack);
  visit_write(v, masked, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
  visit_last_block(v, *this);
}

template <class Group>
MILLRACE_HD void FinishSums::operator()(const Group& group, std::int64_t i) const {
  const Division place = divide(i, channels);
  double sum[1];
  join_chunks(group, {partial, chunks, sums, channels}, place.quotient, place.remainder, sum);
  if (group.lane() == 0) take(place.remainder, static_cast<int>(place.quotient), sum[0]);
}
MILLRACE_HD void FinishSums::take(std::int64_t channel, int which, double sum) const {
  const bool by_deviation = which == 1 && variance != nullptr;
  (which == 0 ? out[0] : out[1])[channel] =
      static_cast<float>(sum) * (by_deviation ? inverse_deviation(variance[channel], epsilon) : 1.0F);
}
template <int kSums>
MILLRACE_HD void FinishSums::take(std::int64_t channel, const double (&sums_of_channel)[kSums]) const {
  MILLRACE_UNROLL for (int s = 0; s < kSums; ++s) take(channel, s, sums_of_channel[s]);
}
template <class Visitor>
void FinishSums::accesses(Visitor& v) const {
  visit_read(v, partial, chunks * sums * channels);
  visit_results(v);
}
template <class Visitor>
void FinishSums::visit_results(Visitor& v) const {
  if (sums == 2) visit_read(v, variance, channels);
  for (int s = 0; s < sums; ++s) visit_write(v, out[s], channels);
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
template <class Visitor>
void NormaliseBackward<T>::accesses(Visitor& v) const {
  for (const T* map : {x, dy}) visit_read(v, map, rows * packs * kPack);
  pooled.accesses(v);
  for (const float* array : {mean, variance, factor, shift, d_shift, d_scale}) visit_read(v, array, packs * kPack);
  visit_result(v, dx, rows * packs * kPack, add);
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
template <class T>
template <class Visitor>
void ColumnSums<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
  visit_last_block(v, *this);
}

}  // namespace millrace::cuda
