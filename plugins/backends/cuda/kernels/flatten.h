// Flattens a channels-last map to a vector in the network's order (C, H, W), and back; also for the host.
#pragma once

#include "portable.h"

namespace millrace::cuda {

struct FlattenExtents {
  std::int64_t n = 0, pixels = 0, channels = 0;  // channels without padding

  MILLRACE_HD std::int64_t features() const { return channels * pixels; }
  MILLRACE_HD std::int64_t vectors() const { return n * pitch_of(features()); }  // elements of all vectors
  MILLRACE_HD std::int64_t maps() const { return n * pixels * pitch_of(channels); }
};

template <class T>
struct Flatten {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "flatten";
  const T* x = nullptr;  // (n, pixels, pitch)
  T* y = nullptr;        // (n, pitch_of(features))
  FlattenExtents at;

  std::int64_t size() const { return at.vectors() / kPack; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division place = divide(i, pitch_of(at.features()) / kPack);
    const T* const map = x + place.quotient * at.pixels * pitch_of(at.channels);
    Division from = divide(place.remainder * kPack, at.pixels);  // channel, pixel
    float values[kPack];
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      const bool inside = from.quotient < at.channels;
      values[k] = inside ? to_float(map[from.remainder * pitch_of(at.channels) + from.quotient]) : 0.0F;
      if (++from.remainder == at.pixels) from = {from.quotient + 1, 0};
    }
    store(y + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, at.maps());
    visit_write(v, y, at.vectors());
  }
};

template <class T>
struct FlattenBackward {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "flatten backward";
  const T* dy = nullptr;
  T* dx = nullptr;
  FlattenExtents at;
  bool add = false;

  std::int64_t size() const { return at.maps() / kPack; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division pixel = divide(i, pitch_of(at.channels) / kPack), sample = divide(pixel.quotient, at.pixels);
    const T* const vector = dy + sample.quotient * pitch_of(at.features());
    const std::int64_t first = pixel.remainder * kPack;  // channel
    float values[kPack];
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      const std::int64_t channel = first + k;
      values[k] = channel < at.channels ? to_float(vector[channel * at.pixels + sample.remainder]) : 0.0F;
    }
    store(dx + i * kPack, values, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, dy, at.vectors());
    visit_result(v, dx, at.maps(), add);
  }
};

// Without padding: for the host.
template <class T>
struct Unpack {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "unpack";
  const T* x = nullptr;  // (n, pixels, pitch)
  float* y = nullptr;    // (n, features)
  FlattenExtents at;

  std::int64_t size() const { return at.n * at.features(); }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const Division sample = divide(i, at.features()), place = divide(sample.remainder, at.pixels);  // channel, pixel
    y[i] = to_float(x[(sample.quotient * at.pixels + place.remainder) * pitch_of(at.channels) + place.quotient]);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, at.maps());
    visit_write(v, y, size());
  }
};

}  // namespace millrace::cuda
