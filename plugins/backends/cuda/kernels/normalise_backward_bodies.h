// Backward, and sums over rows, declared in normalise.h. Included by normalise_bodies.h.
#pragma once

#include "normalise_bodies.h"

namespace millrace::cuda {

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
