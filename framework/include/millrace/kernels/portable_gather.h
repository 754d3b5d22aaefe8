// Runs kernels of form `gather` (portable.h) on a processor. Types and layouts are selected once per patch. Values for a place
// are computed once; the innermost loop runs over its contiguous channels.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "millrace/kernels/portable_element.h"
#include "millrace/kernels/vectorised.h"

namespace millrace::detail {

// A channel of the result in a blocked layout; kernels see a number. If a kernel passes it on unchanged, the loop can read
// neighbours.
struct BlockChannel {
  std::int32_t block, lane;
  MILLRACE_KERNEL operator std::int32_t() const { return 16 * block + lane; }  // NOLINT
};

struct AnyType {};  // tensors of several types

// A tensor read, for one image. Within an image, offsets fit in 32 bits; they count elements.
struct GatherSource {
  const std::byte* data = nullptr;
  std::int32_t stride_pixel = 0, stride_block = 16;
  std::int32_t channels = 0, height = 1, width = 1;
  DataType type = DataType::f32;

  GatherSource() = default;
  MILLRACE_KERNEL GatherSource(const TensorView& view, std::int64_t sample)
      : data(static_cast<const std::byte*>(view.data) + sample * view.stride_n * static_cast<std::int64_t>(size_of(view.type))),
        stride_pixel(static_cast<std::int32_t>(view.stride_pixel)),
        stride_block(static_cast<std::int32_t>(view.stride_block)),
        channels(view.channels),
        height(view.height),
        width(view.width),
        type(view.type) {}
};

// Elements from one place on. T: the tensor's type.
template <class T>
struct GatherElements {
  const T* first;
  MILLRACE_KERNEL GatherElements(const GatherSource& source, std::int32_t at)
      : first(reinterpret_cast<const T*>(source.data) + at) {}
  MILLRACE_KERNEL float operator[](std::int32_t at) const { return to_float(first[at]); }
};
template <>
struct GatherElements<AnyType> {
  const std::byte* first;
  bool is_bf16;
  MILLRACE_KERNEL GatherElements(const GatherSource& source, std::int32_t at)
      : first(source.data + at * static_cast<std::int64_t>(size_of(source.type))), is_bf16(source.type == DataType::bf16) {}
  MILLRACE_KERNEL float operator[](std::int32_t at) const {
    return is_bf16 ? to_float(reinterpret_cast<const Bf16*>(first)[at]) : reinterpret_cast<const float*>(first)[at];
  }
};

// All channels of one place.
template <class T, bool kBlocks>
class HostPlace {
 public:
  MILLRACE_KERNEL HostPlace(const GatherSource& source, std::int32_t y, std::int32_t x)
      : elements_(source, (y * source.width + x) * source.stride_pixel), stride_block_(source.stride_block) {}
  MILLRACE_KERNEL float operator()(std::int32_t c) const { return elements_[(c >> 4) * stride_block_ + (c & 15)]; }
  MILLRACE_KERNEL float operator()(BlockChannel c) const { return elements_[c.block * stride_block_ + c.lane]; }

 private:
  GatherElements<T> elements_;
  std::int32_t stride_block_;
};
template <class T>
class HostPlace<T, false> {
 public:
  MILLRACE_KERNEL HostPlace(const GatherSource& source, std::int32_t y, std::int32_t x)
      : elements_(source, (y * source.width + x) * source.stride_pixel) {}
  MILLRACE_KERNEL float operator()(std::int32_t c) const { return elements_[c]; }

 private:
  GatherElements<T> elements_;
};

// The tensors that a gather reads.
template <class T, bool kBlocks, int kReads>
class HostFrom {
 public:
  MILLRACE_KERNEL HostFrom(const PortableElement& element, std::int64_t sample) {
    for (int i = 0; i < kReads; ++i) sources_[i] = GatherSource(element.tensors[static_cast<std::size_t>(i)], sample);
  }
  MILLRACE_KERNEL std::int32_t channels(int tensor) const { return sources_[tensor].channels; }
  MILLRACE_KERNEL std::int32_t height(int tensor) const { return sources_[tensor].height; }
  MILLRACE_KERNEL std::int32_t width(int tensor) const { return sources_[tensor].width; }
  MILLRACE_KERNEL HostPlace<T, kBlocks> operator()(int tensor, std::int32_t y, std::int32_t x) const {
    return {sources_[tensor], y, x};
  }
  // One value. Computed in 32 bits up to the address, so that places which depend on the channel vectorise too.
  MILLRACE_KERNEL float operator()(int tensor, std::int32_t c, std::int32_t y, std::int32_t x) const {
    const GatherSource& source = sources_[tensor];
    const std::int32_t channel = kBlocks ? (c >> 4) * source.stride_block + (c & 15) : c;
    return GatherElements<T>(source, 0)[(y * source.width + x) * source.stride_pixel + channel];
  }

 private:
  GatherSource sources_[std::max(kReads, 1)];
};

template <class F, class T, bool kBlocks>
void gather_patch(const GatherPatch& given, float* out) {
  vectorised([&]() MILLRACE_INLINED {
    // Copies, which writes cannot alias.
    const GatherPatch patch = given;
    const F f = *reinterpret_cast<const F*>(patch.element->functor.data());
    const HostFrom<T, kBlocks, F::kReads> from(*patch.element, patch.sample);
    const std::int32_t width = patch.element->written(0).width, channels = patch.channels, first = patch.first_channel;
    std::int32_t y = patch.first_pixel / width, x = patch.first_pixel % width;
    float* to = out;
    for (std::int32_t pixel = 0; pixel < patch.pixels; ++pixel, to += channels) {
      const auto value = f(from, y, x);
      if constexpr (!kBlocks) {
#pragma GCC ivdep
        for (std::int32_t c = 0; c < channels; ++c) to[c] = value(first + c);
      } else if (channels == 16) {
#pragma GCC ivdep
#pragma GCC unroll 1  // otherwise unrolling prevents vectorisation
        for (std::int32_t lane = 0; lane < 16; ++lane) to[lane] = value(BlockChannel{first / 16, lane});
      } else {
        for (std::int32_t lane = 0; lane < channels; ++lane) to[lane] = value(BlockChannel{first / 16, lane});
      }
      if (++x == width) {
        x = 0;
        ++y;
      }
    }
  });
}

template <class F>
void gather_on_host(const GatherPatch& patch, float* out) {
  const auto all = [&](DataType type) {
    const auto end = patch.element->tensors.begin() + F::kReads;
    return std::all_of(patch.element->tensors.begin(), end, [type](const TensorView& view) { return view.type == type; });
  };
  if (all(DataType::f32) && patch.in_blocks) return gather_patch<F, float, true>(patch, out);
  if (all(DataType::f32)) return gather_patch<F, float, false>(patch, out);
  if (all(DataType::bf16) && patch.in_blocks) return gather_patch<F, Bf16, true>(patch, out);
  if (all(DataType::bf16)) return gather_patch<F, Bf16, false>(patch, out);
  gather_patch<F, AnyType, true>(patch, out);
}

}  // namespace millrace::detail
