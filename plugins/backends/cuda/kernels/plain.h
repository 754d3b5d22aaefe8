// Element by element: scaling, adding, dropout, copies between types and places.
#pragma once

#include "portable.h"

namespace millrace::cuda {

// The random bits of millrace/detail/random.h (Philox 4x32-10 and its mixing of words) for host and device.
struct PhiloxBlock {
  std::uint32_t words[4];
};

// Philox::block(). Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
MILLRACE_HD PhiloxBlock philox(PhiloxBlock counter, std::uint64_t key) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t(&c)[4] = counter.words;
  MILLRACE_UNROLL for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * c[0], product1 = kMultiplier1 * c[2];
    c[0] = static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<std::uint32_t>(product1);
    c[2] = static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

MILLRACE_HD std::uint64_t mix_word(std::uint64_t word) {  // mix64()
  word += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}
MILLRACE_HD std::uint64_t chain_words(std::uint64_t hash, std::uint64_t word) {  // combine()
  return mix_word(hash ^ mix_word(word));
}

// Values that change from step to step while pointers stay: in device memory, so that recordings read them again.
struct StepScalars {
  std::uint64_t step = 0;          // training step
  std::uint64_t first_sample = 0;  // this replica's first place in the global batch
};

// Written from kernel arguments: no host memory has to stay.
struct SetScalars {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "set scalars";
  StepScalars values;
  StepScalars* out = nullptr;

  std::int64_t size() const { return 1; }
  MILLRACE_HD void operator()(std::int64_t) const { *out = values; }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_write(v, out, 1);
  }
};

// y = factor * x, added to y if requested. y may be x.
template <class T>
struct Scale {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "scale";
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t packs = 0;
  float factor = 1;
  bool add = false;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float values[kPack];
    load(x + i * kPack, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] *= factor;
    store(y + i * kPack, values, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, packs * kPack);
    visit_result(v, y, packs * kPack, add);
  }
};

// y = a + b. y may be either.
template <class T>
struct Add {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "add";
  const T *a = nullptr, *b = nullptr;
  T* y = nullptr;
  std::int64_t packs = 0;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float left[kPack], right[kPack];
    load(a + i * kPack, left);
    load(b + i * kPack, right);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) left[k] += right[k];
    store(y + i * kPack, left);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, a, packs * kPack);
    visit_read(v, b, packs * kPack);
    visit_write(v, y, packs * kPack);
  }
};

// Channels [from_begin, from_begin + channels) of each row of `from` become [to_begin, ...) of the row of `to`, or are added
// there. If the last of them is in the last pack of a row of `to` and nothing is added, the channels after it become zero: copies
// into one map run in the order of its channels.
template <class T>
struct CopyChannels {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "copy channels";
  const T* from = nullptr;
  T* to = nullptr;
  std::int64_t rows = 0, channels = 0;
  std::int64_t from_pitch = 0, from_begin = 0, to_pitch = 0, to_begin = 0;
  bool add = false;

  MILLRACE_HD bool whole_packs() const { return (channels | from_begin | to_begin | from_pitch | to_pitch) % kPack == 0; }
  std::int64_t size() const { return rows * channels / (whole_packs() ? kPack : 1); }
  MILLRACE_HD void operator()(std::int64_t i) const {
    if (whole_packs()) {
      const Division place = divide(i, channels / kPack);
      float values[kPack];
      load(from + place.quotient * from_pitch + from_begin + place.remainder * kPack, values);
      store(to + place.quotient * to_pitch + to_begin + place.remainder * kPack, values, add);
      return;
    }
    const Division place = divide(i, channels);
    T* const target = to + place.quotient * to_pitch + to_begin + place.remainder;
    const float value = to_float(from[place.quotient * from_pitch + from_begin + place.remainder]);
    *target = from_float<T>(add ? to_float(*target) + value : value);
    if (place.remainder + 1 < channels) return;
    for (std::int64_t behind = rest(); behind > 0; --behind) target[behind] = from_float<T>(0.0F);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    if (rows * channels == 0) return;
    visit_read(v, from + from_begin, (rows - 1) * from_pitch + channels);
    visit_result(v, to + to_begin, (rows - 1) * to_pitch + channels + rest(), add);
  }

 private:
  MILLRACE_HD std::int64_t rest() const {  // number of channels after the copied ones that become zero
    const std::int64_t behind = to_pitch - to_begin - channels;
    return add || behind >= kPack ? 0 : behind;
  }
};

// Inverted dropout: y = x / (1 - probability) or 0, added to y if requested; y may be x. The decision for element (c, h, w) of
// sample first_sample + n equals that of backend "cpu": a function of (seed, step, layer, sample, pixel, channel), without the
// coordinates that are dropped together.
template <class T>
struct Dropout {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "dropout";
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t n = 0, pixels = 0, channels = 0;  // channels without padding
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  double probability = 0;  // double: rounding to float would change the decision for some elements
  const StepScalars* scalars = nullptr;
  bool by_channel = true, by_pixel = true;  // as in DropoutAttributes
  bool add = false;

  std::int64_t size() const { return n * pixels * (pitch_of(channels) / kPack); }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division row = divide(i, pitch_of(channels) / kPack), sample = divide(row.quotient, pixels);
    const std::uint64_t number = scalars->first_sample + static_cast<std::uint64_t>(sample.quotient);
    const std::uint64_t key = chain_words(chain_words(seed, scalars->step), layer);
    // An element is dropped if its 32 bits are below the threshold; a probability of 1 drops everything.
    const auto threshold = static_cast<std::uint64_t>(probability * 4294967296.0);
    const float factor = probability < 1 ? 1.0F / static_cast<float>(1 - probability) : 0.0F;
    float values[kPack];
    load(x + i * kPack, values);
    const std::int64_t pixel = by_pixel ? sample.remainder : 0;
    MILLRACE_UNROLL for (int half = 0; half < 2; ++half) {
      const std::int64_t four = by_channel ? 2 * row.remainder + half : 0;
      const PhiloxBlock bits = philox({{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                                        static_cast<std::uint32_t>(pixel), static_cast<std::uint32_t>(four)}},
                                      key);
      MILLRACE_UNROLL for (int k = 0; k < 4; ++k) {
        float& value = values[4 * half + k];
        value = (by_channel ? bits.words[k] : bits.words[0]) < threshold ? 0.0F : value * factor;
      }
    }
    store(y + i * kPack, values, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, size() * kPack);
    visit_read(v, scalars, 1);
    visit_result(v, y, size() * kPack, add);
  }
};

template <class From, class To>
struct Convert {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "convert";
  const From* from = nullptr;
  To* to = nullptr;
  std::int64_t packs = 0;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float values[kPack];
    load(from + i * kPack, values);
    store(to + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, from, packs * kPack);
    visit_write(v, to, packs * kPack);
  }
};
using FloatToBf16 = Convert<float, Bf16>;
using Bf16ToFloat = Convert<Bf16, float>;

// destination = sources[0] + sources[1] + ..., added in this order; destination may be one of them. REQUIRES: count > 0.
struct SumArrays {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "sum";
  static constexpr int kMax = 8;
  const float* sources[kMax] = {};
  int count = 0;
  float* destination = nullptr;
  std::int64_t elements = 0;

  std::int64_t size() const { return elements; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float sum = sources[0][i];
    MILLRACE_UNROLL for (int s = 1; s < kMax; ++s) {  // constant length: no variable may index an array of arguments
      if (s < count) sum += sources[s][i];
    }
    destination[i] = sum;
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    for (int s = 0; s < count; ++s) visit_read(v, sources[s], elements);
    visit_write(v, destination, elements);
  }
};

// total = (first ? 0 : total) + weight * logits: test-time augmentation. Both are (rows, width, row_packs); the logits of a
// mirrored view are read in reverse.
template <class T>
struct AddLogits {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "add logits";
  const T* logits = nullptr;
  float* total = nullptr;
  std::int64_t rows = 0, width = 1, row_packs = 0;
  float weight = 1;
  bool mirrored = false, first = false;

  std::int64_t size() const { return rows * width * row_packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    std::int64_t from = i;
    if (mirrored) {
      const std::int64_t x = divide(divide(i, row_packs).quotient, width).remainder;
      from += (width - 1 - 2 * x) * row_packs;
    }
    float values[kPack];
    load(logits + from * kPack, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] *= weight;
    store(total + i * kPack, values, !first);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, logits, size() * kPack);
    visit_result(v, total, size() * kPack, !first);
  }
};

}  // namespace millrace::cuda
