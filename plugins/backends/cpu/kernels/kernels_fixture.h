// Shared by the kernels' tests: tensors with element access in double for any layout and type, and an iteration over all
// instruction sets of this processor, layouts, types and awkward channel counts.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace millrace::cpu {

enum class Layout { blocked, channels_last };

struct Case {
  const Kernels& kernels;
  Layout layout;
  DataType type;
  std::int64_t channels;
  double tolerance() const { return type == DataType::bf16 ? 1.0 / 128 : 2e-5; }  // relative to values near 1
};

inline void for_each_case(const std::function<void(const Case&)>& body) {
  for (const Kernels* const* kernels = all_kernels(); *kernels != nullptr; ++kernels) {
    for (const Layout layout : {Layout::blocked, Layout::channels_last}) {
      for (const DataType type : {DataType::f32, DataType::bf16}) {
        if (type == DataType::bf16 && !(*kernels)->bf16) continue;
        for (const std::int64_t channels : {5, 16, 24, 48}) {
          SCOPED_TRACE(std::string((*kernels)->instruction_set) +
                       (layout == Layout::blocked ? ", blocked, " : ", channels last, ") + to_string(type) + ", " +
                       std::to_string(channels) + " channels");
          body(Case{**kernels, layout, type, channels});
        }
      }
    }
  }
}

class Tensor {
 public:
  Tensor(const Case& c, std::int64_t n, std::int64_t height, std::int64_t width)
      : Tensor(c.layout, c.type, n, c.channels, height, width) {}
  Tensor(Layout layout, DataType type, std::int64_t n, std::int64_t channels, std::int64_t height, std::int64_t width) {
    map = layout == Layout::blocked ? Map::blocked(nullptr, type, n, channels, height, width)
                                    : Map::channels_last(nullptr, type, n, channels, height, width);
    size_ = static_cast<std::size_t>(n * map.stride_n) * size_of(type);
    memory_.reset(static_cast<std::uint8_t*>(::operator new[](size_ + 64, std::align_val_t{64})));
    std::memset(memory_.get(), 0xff, size_ + 64);  // NaN: reveals elements that a kernel does not write
    map.data = memory_.get();
  }
  Tensor(const Tensor& other)
      : Tensor(other.layout(), other.map.type, other.map.n, other.map.channels, other.map.height, other.map.width) {
    std::memcpy(memory_.get(), other.memory_.get(), size_);
  }

  Layout layout() const { return map.padded ? Layout::blocked : Layout::channels_last; }
  double at(std::int64_t n, std::int64_t c, std::int64_t pixel) const {
    const std::int64_t i = offset(n, c, pixel);
    return map.type == DataType::bf16 ? from_bf16(static_cast<const std::uint16_t*>(map.data)[i])
                                      : static_cast<const float*>(map.data)[i];
  }
  void set(std::int64_t n, std::int64_t c, std::int64_t pixel, double value) {
    const std::int64_t i = offset(n, c, pixel);
    if (map.type == DataType::bf16) {
      static_cast<std::uint16_t*>(map.data)[i] = to_bf16(static_cast<float>(value));
    } else {
      static_cast<float*>(map.data)[i] = static_cast<float>(value);
    }
  }
  void each(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) const {
    for (std::int64_t n = 0; n < map.n; ++n) {
      for (std::int64_t c = 0; c < map.channels; ++c) {
        for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel) body(n, c, pixel);
      }
    }
  }
  Tensor& fill(unsigned seed, double mean = 0, double deviation = 1) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(mean, deviation);
    std::memset(memory_.get(), 0, size_);  // padding channels are zero
    each([&](auto n, auto c, auto pixel) { set(n, c, pixel, normal(generator)); });
    return *this;
  }
  bool same_bits(const Tensor& other) const { return std::memcmp(memory_.get(), other.memory_.get(), size_) == 0; }
  // Padding of a blocked layout must stay zero; nothing may be written past the end.
  void expect_padding_kept() const {
    for (std::int64_t c = map.channels; map.padded && c < map.blocks() * Map::kLanes; ++c) {
      for (std::int64_t n = 0; n < map.n; ++n) {
        for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel) ASSERT_EQ(at(n, c, pixel), 0) << "padding channel " << c;
      }
    }
    for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(memory_[size_ + i], 0xff) << "written past the end";
  }
  void expect_near(const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& expected, double tolerance) const {
    int bad = 0;
    each([&](auto n, auto c, auto pixel) {
      const double want = expected(n, c, pixel), found = at(n, c, pixel);
      if (!(std::abs(found - want) <= tolerance * std::max(1.0, std::abs(want))) && bad++ < 3) {
        ADD_FAILURE() << "(" << n << ", " << c << ", " << pixel << "): found " << found << ", expected " << want;
      }
    });
    expect_padding_kept();
  }

  Map map;

 private:
  struct Deleter {
    void operator()(std::uint8_t* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t pixel) const {
    return n * map.stride_n + c / 16 * map.stride_block + pixel * map.stride_pixel + c % 16;
  }
  std::size_t size_ = 0;
  std::unique_ptr<std::uint8_t[], Deleter> memory_;
};

inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double reference_activation(Activation activation, double x) {
  if (activation == Activation::relu) return x > 0 ? x : 0;
  return activation == Activation::gelu ? x * normal_cdf(x) : x;
}
inline double reference_slope(Activation activation, double x) {
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  if (activation == Activation::none) return 1;
  return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

inline std::vector<float> random_values(std::size_t count, unsigned seed, double mean = 0, double deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(normal(generator));
  return values;
}

// Runs body with teams of 1, 2 and 3 threads; its results must be bit-identical.
template <class Body>
void expect_same_for_any_team(const Body& body) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto alone = body();
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_TRUE(body() == alone) << threads << " threads";
  }
  omp_set_num_threads(before);
}
inline std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  const auto* const data = static_cast<const std::uint8_t*>(tensor.map.data);
  return {data, data + static_cast<std::size_t>(tensor.map.n * tensor.map.stride_n) * size_of(tensor.map.type)};
}

}  // namespace millrace::cpu
