// Tensors of every layout, and kernels over them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "millrace/kernels/portable.h"

namespace millrace {

enum class Lies { channels_last, packed, blocked };  // the CPU's two layouts, and a GPU's between them

// A tensor in memory with a margin of NaN that must stay untouched.
class Tensor {
 public:
  TensorView view;

  Tensor(Lies lies, DataType type, std::int64_t n, std::int64_t pixels, std::int64_t channels)
      : n_(n), pixels_(pixels), channels_(channels) {
    view.channels = static_cast<std::int32_t>(channels);
    view.width = static_cast<std::int32_t>(pixels);  // as one row, unless of_image() sets it
    const std::int64_t multiple = lies == Lies::blocked ? 16 : lies == Lies::packed ? 8 : 1;
    view.type = type;
    view.padded = (channels + multiple - 1) / multiple * multiple;
    view.stride_pixel = lies == Lies::blocked ? 16 : view.padded;
    view.stride_block = lies == Lies::blocked ? 16 * pixels : 16;
    view.stride_n = pixels * view.padded;
    bytes_.assign(static_cast<std::size_t>(n * view.stride_n) * size_of(type) + kMargin, 0xFF);
    view.data = bytes_.data();
  }

  Tensor(const Tensor& other)
      : view(other.view), n_(other.n_), pixels_(other.pixels_), channels_(other.channels_), bytes_(other.bytes_) {
    view.data = bytes_.data();
  }
  Tensor& operator=(const Tensor&) = delete;

  static Tensor of_image(Lies lies, DataType type, std::int64_t n, const Shape& shape) {  // (C, H, W)
    Tensor made(lies, type, n, shape[1] * shape[2], shape[0]);
    made.view.height = static_cast<std::int32_t>(shape[1]);
    made.view.width = static_cast<std::int32_t>(shape[2]);
    return made;
  }

  double at(std::int64_t n, std::int64_t pixel, std::int64_t c) const {
    const std::int64_t i = offset(n, pixel, c);
    return view.type == DataType::bf16 ? from_bf16(static_cast<const std::uint16_t*>(view.data)[i])
                                       : static_cast<const float*>(view.data)[i];
  }
  void set(std::int64_t n, std::int64_t pixel, std::int64_t c, double value) {
    const std::int64_t i = offset(n, pixel, c);
    if (view.type == DataType::bf16)
      static_cast<std::uint16_t*>(view.data)[i] = to_bf16(static_cast<float>(value));
    else
      static_cast<float*>(view.data)[i] = static_cast<float>(value);
  }
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    each(view.padded, [&](auto n, auto pixel, auto c) {
      set(n, pixel, c, c < channels_ ? std::uniform_real_distribution<double>(-1, 1)(random) : 0);
    });
  }
  template <class Use>
  void each(std::int64_t channels, const Use& use) const {
    for (std::int64_t n = 0; n < n_; ++n) {
      for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) {
        for (std::int64_t c = 0; c < channels; ++c) use(n, pixel, c);
      }
    }
  }
  void expect_untouched_margin() const {
    for (std::size_t i = bytes_.size() - kMargin; i < bytes_.size(); ++i) ASSERT_EQ(bytes_[i], 0xFF);
  }
  void expect_zero_padding() const {
    each(view.padded, [&](auto n, auto pixel, auto c) {
      if (c >= channels_) {
        ASSERT_EQ(at(n, pixel, c), 0) << n << ", " << pixel << ", " << c;
      }
    });
  }

 private:
  static constexpr std::size_t kMargin = 256;
  std::int64_t offset(std::int64_t n, std::int64_t pixel, std::int64_t c) const {
    return n * view.stride_n + pixel * view.stride_pixel + c / 16 * view.stride_block + c % 16;
  }
  std::int64_t n_, pixels_, channels_;
  std::vector<std::uint8_t> bytes_;
};

struct Extents {
  std::int64_t n, pixels, channels;
};

template <class F>
PortableElement element_of(const F& functor, const Extents& at, std::vector<TensorView> views) {
  PortableElement element;
  element.kernel = &portable_kernel<F>();
  std::memcpy(element.functor.data(), &functor, sizeof functor);
  element.n = at.n;
  element.pixels = at.pixels;
  element.channels = at.channels;
  element.reads = element.kernel->reads;
  element.writes = element.kernel->writes;
  std::copy(views.begin(), views.end(), element.tensors.begin());
  return element;
}

// In pieces, the last ones first, since units are independent.
inline void run(const Kernel& kernel, const PortableElement& element) {
  const std::int64_t units = kernel.units(&element), middle = units / 2;
  kernel.run_on_host(&element, middle, units);
  kernel.run_on_host(&element, 0, middle);
}

template <class Use>
void for_each_instruction_set(const Use& use) {
  const InstructionSet best = instruction_set();
  for (const InstructionSet set :
       {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::avx512_bf16}) {
    if (use_instruction_set(set)) use(set);
  }
  use_instruction_set(best);
}

inline double tolerance(DataType type) { return type == DataType::bf16 ? 1.0 / 128 : 1e-6; }

}  // namespace millrace
