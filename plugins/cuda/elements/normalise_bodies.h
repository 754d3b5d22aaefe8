// What normalise.h declares.
#pragma once

#include "normalise.h"

namespace millrace::cuda {

// ---- Statistics ----

template <class T>
struct MomentsColumn {
  const Moments<T>& element;
  std::int64_t pack;
  float pivot[kPack];

  MILLRACE_HD void add(std::int64_t row, float (&sums)[2][kPack]) const {
    float values[kPack];
    load(element.x + (row * element.packs + pack) * kPack, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      const float difference = values[k] - pivot[k];
      sums[0][k] += difference;
      sums[1][k] += difference * difference;
    }
  }
};
template <class T>
MILLRACE_HD MomentsColumn<T> Moments<T>::column(std::int64_t pack) const {
  MomentsColumn<T> result{*this, pack, {}};
  load_constant(x + pack * kPack, result.pivot);
  return result;
}
template <class T>
MILLRACE_HD void Moments<T>::add(std::int64_t row, std::int64_t pack, float (&sums)[kSums][kPack]) const {
  column(pack).add(row, sums);
}
template <class T>
template <class Visitor>
void Moments<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
}

template <class T>
template <class Group>
MILLRACE_HD void FinishMoments<T>::operator()(const Group& group, std::int64_t channel) const {
  const std::int64_t chunks = chunks_of(rows, packs), channels = packs * kPack;
  const double sum = sum_of_chunks(group, partial, chunks, 2, 0, channels, channel);
  const double squares = sum_of_chunks(group, partial, chunks, 2, 1, channels, channel);
  if (group.lane() != 0) return;
  const auto count = static_cast<double>(rows), share = static_cast<double>(momentum);
  const double offset = sum / count, biased = (squares - sum * offset) / count;
  const double average = static_cast<double>(to_float(x[channel])) + offset;
  const auto kept = static_cast<float>(biased < 0 ? 0 : biased);  // NaN stays NaN
  mean[channel] = static_cast<float>(average);
  variance[channel] = kept;
  factor[channel] = inverse_deviation(kept, epsilon) * (scale == nullptr ? 1.0F : scale[channel]);
  if (running_mean == nullptr) return;
  const double unbiased = rows > 1 ? biased * count / (count - 1) : biased;
  const double old_mean = static_cast<double>(running_mean[channel]), old = static_cast<double>(running_variance[channel]);
  running_mean[channel] = static_cast<float>((1 - share) * old_mean + share * average);
  running_variance[channel] = static_cast<float>((1 - share) * old + share * (unbiased < 0 ? 0 : unbiased));
}
template <class T>
template <class Visitor>
void FinishMoments<T>::accesses(Visitor& v) const {
  const std::int64_t channels = packs * kPack;
  visit_read(v, x, channels);
  visit_read(v, partial, chunks_of(rows, packs) * 2 * channels);
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

// pre = (x - mean) * factor + shift, of eight channels.
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
  MILLRACE_HD void apply(float (&values)[kPack]) const {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = (values[k] - mean[k]) * factor[k] + shift[k];
  }
};

// values += map[at ...], where there is a map
template <class T>
MILLRACE_HD void add_pack(const T* map, std::int64_t at, float (&values)[kPack]) {
  if (map == nullptr) return;
  float more[kPack];
  load(map + at, more);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] += more[k];
}

template <class T>
struct NormaliseColumn {
  const Normalise<T>& element;
  std::int64_t pack;
  NormaliseChannels channels;

  MILLRACE_HD void operator()(std::int64_t row) const {
    const std::int64_t at = (row * element.packs + pack) * kPack;
    float values[kPack];
    load(element.x + at, values);
    channels.apply(values);
    add_pack(element.residual, at, values);
    activate(element.activation, values);
    store(element.y + at, values);
  }
};
template <class T>
MILLRACE_HD NormaliseColumn<T> Normalise<T>::column(std::int64_t pack) const {
  return {*this, pack, NormaliseChannels::of(*this, pack)};
}
template <class T>
MILLRACE_HD void Normalise<T>::operator()(std::int64_t i) const {
  const Division place = divide(i, packs);
  column(place.remainder)(place.quotient);
}
template <class T>
template <class Visitor>
void Normalise<T>::accesses(Visitor& v) const {
  visit_read(v, x, size() * kPack);
  visit_read(v, residual, size() * kPack);
  for (const float* array : {mean, factor, shift}) visit_read(v, array, packs * kPack);
  visit_write(v, y, size() * kPack);
}

// ---- Backward ----

// What both passes find at a pack: x_hat = (x - mean) / deviation, and g = dy * activation'(pre).
struct NormaliseBackwardChannels {
  NormaliseChannels forward;
  float inverse[kPack];  // 1 / deviation

  template <class Element>
  MILLRACE_HD static NormaliseBackwardChannels of(const Element& element, std::int64_t pack) {
    NormaliseBackwardChannels result{NormaliseChannels::of(element, pack), {}};
    load_constant(element.variance + pack * kPack, result.inverse);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) result.inverse[k] = inverse_deviation(result.inverse[k], element.epsilon);
    return result;
  }

  // `y`: forward's output; `residual`: what it added; both may be null.
  template <class Element, class T>
  MILLRACE_HD void read(const Element& element, const T* y, const T* residual, std::int64_t at, float (&x_hat)[kPack],
                        float (&g)[kPack]) const {
    load(element.x + at, x_hat);
    load(element.dy + at, g);
    if (element.activation != Activation::none) {
      float before[kPack];
      if (element.activation == Activation::relu && y != nullptr) {
        load(y + at, before);
      } else {
        MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) before[k] = x_hat[k];
        forward.apply(before);
        add_pack(residual, at, before);
      }
      multiply_by_slope(element.activation, before, g);
    }
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) x_hat[k] = (x_hat[k] - forward.mean[k]) * inverse[k];
  }
};

template <class T>
struct NormaliseBackwardSumsColumn {
  const NormaliseBackwardSums<T>& element;
  std::int64_t pack;
  NormaliseBackwardChannels channels;

  MILLRACE_HD void add(std::int64_t row, float (&sums)[2][kPack]) const {
    const std::int64_t at = (row * element.packs + pack) * kPack;
    float x_hat[kPack], g[kPack];
    channels.read(element, element.y, element.residual, at, x_hat, g);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      sums[0][k] += g[k];
      sums[1][k] += g[k] * x_hat[k];
    }
    if (element.masked != nullptr) store(element.masked + at, g);
  }
};
template <class T>
MILLRACE_HD NormaliseBackwardSumsColumn<T> NormaliseBackwardSums<T>::column(std::int64_t pack) const {
  return {*this, pack, NormaliseBackwardChannels::of(*this, pack)};
}
template <class T>
MILLRACE_HD void NormaliseBackwardSums<T>::add(std::int64_t row, std::int64_t pack, float (&sums)[kSums][kPack]) const {
  column(pack).add(row, sums);
}
template <class T>
template <class Visitor>
void NormaliseBackwardSums<T>::accesses(Visitor& v) const {
  for (const T* map : {x, dy, y, residual}) visit_read(v, map, rows * packs * kPack);
  for (const float* array : {mean, variance, factor, shift}) visit_read(v, array, packs * kPack);
  visit_write(v, masked, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
}

template <class Group>
MILLRACE_HD void FinishSums::operator()(const Group& group, std::int64_t i) const {
  const Division place = divide(i, channels);
  const double sum = sum_of_chunks(group, partial, chunks, sums, place.quotient, channels, place.remainder);
  float* const to = place.quotient == 0 ? out[0] : out[1];
  if (group.lane() == 0) to[place.remainder] = static_cast<float>(sum);
}
template <class Visitor>
void FinishSums::accesses(Visitor& v) const {
  visit_read(v, partial, chunks * sums * channels);
  for (int s = 0; s < sums; ++s) visit_write(v, out[s], channels);
}

// dx = factor * g - (x_hat * by_x + offset): what does not change from row to row is multiplied out.
template <class T>
struct NormaliseBackwardColumn {
  const NormaliseBackward<T>& element;
  std::int64_t pack;
  NormaliseBackwardChannels channels;
  float by_x[kPack], offset[kPack];

  MILLRACE_HD void operator()(std::int64_t row) const {
    const std::int64_t at = (row * element.packs + pack) * kPack;
    const T* const nothing = nullptr;
    float x_hat[kPack], g[kPack];
    channels.read(element, nothing, nothing, at, x_hat, g);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) g[k] = channels.forward.factor[k] * g[k] - (x_hat[k] * by_x[k] + offset[k]);
    store(element.dx + at, g, element.add);
  }
};
template <class T>
MILLRACE_HD NormaliseBackwardColumn<T> NormaliseBackward<T>::column(std::int64_t pack) const {
  NormaliseBackwardColumn<T> result{*this, pack, NormaliseBackwardChannels::of(*this, pack), {}, {}};
  load_constant(d_scale + pack * kPack, result.by_x);
  load_constant(d_shift + pack * kPack, result.offset);
  const float share = 1.0F / static_cast<float>(rows);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
    result.by_x[k] *= share * result.channels.forward.factor[k];
    result.offset[k] *= share * result.channels.forward.factor[k];
  }
  return result;
}
template <class T>
MILLRACE_HD void NormaliseBackward<T>::operator()(std::int64_t i) const {
  const Division place = divide(i, packs);
  column(place.remainder)(place.quotient);
}
template <class T>
template <class Visitor>
void NormaliseBackward<T>::accesses(Visitor& v) const {
  for (const T* map : {x, dy}) visit_read(v, map, size() * kPack);
  for (const float* array : {mean, variance, factor, shift, d_shift, d_scale}) visit_read(v, array, packs * kPack);
  visit_result(v, dx, size() * kPack, add);
}

template <class T>
MILLRACE_HD void ColumnSums<T>::add(std::int64_t row, std::int64_t pack, float (&sums)[kSums][kPack]) const {
  float values[kPack];
  load(x + (row * packs + pack) * kPack, values);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sums[0][k] += values[k];
}
template <class T>
template <class Visitor>
void ColumnSums<T>::accesses(Visitor& v) const {
  visit_read(v, x, rows * packs * kPack);
  visit_write(v, partial, chunks_of(rows, packs) * kSums * packs * kPack);
}

}  // namespace millrace::cuda
