#include "compute/staging.h"

#include <algorithm>

#include "millrace/kernels/vectorised.h"

namespace millrace::portable {
namespace {

constexpr std::int64_t kBlock = 16;

MILLRACE_KERNEL std::int64_t offset_of(const TensorView& view, std::int64_t pixels, std::int64_t line) {
  return line / pixels * view.stride_n + line % pixels * view.stride_pixel;
}

MILLRACE_KERNEL std::int64_t channel_offset(const TensorView& view, std::int64_t channel) {
  return channel / kBlock * view.stride_block + channel % kBlock;
}

// Whether a line's channels are contiguous.
bool is_stretch(const TensorView& view, const Patch& patch) {
  return view.stride_block == kBlock || patch.first_channel % kBlock + patch.channels <= kBlock;
}
bool is_in_one_sample(std::int64_t pixels, const Patch& patch) {
  return patch.first_line / pixels == (patch.first_line + patch.lines - 1) / pixels;
}

// Iterates over the lines of a patch: use(offset in the tensor, index of the line).
template <class Use>
MILLRACE_KERNEL void for_each_line(const TensorView& view, std::int64_t pixels, const Patch& patch, const Use& use) {
  std::int64_t sample = patch.first_line / pixels, pixel = patch.first_line % pixels;
  for (std::int64_t line = 0; line < patch.lines; ++line) {
    use(sample * view.stride_n + pixel * view.stride_pixel, line);
    if (++pixel == pixels) {
      pixel = 0;
      ++sample;
    }
  }
}

// Iterates over the contiguous stretches of a line: use(offset from the line's, first channel in the patch, count).
template <class Use>
MILLRACE_KERNEL void for_each_stretch(const TensorView& view, const Patch& patch, const Use& use) {
  if (view.stride_block == kBlock) return use(channel_offset(view, patch.first_channel), 0, patch.channels);
  for (std::int64_t done = 0; done < patch.channels;) {
    const std::int64_t channel = patch.first_channel + done;
    const std::int64_t count = std::min(kBlock - channel % kBlock, patch.channels - done);
    use(channel_offset(view, channel), done, count);
    done += count;
  }
}

template <class T>
MILLRACE_KERNEL void copy_in(const T* from, float* to, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
template <class T>
MILLRACE_KERNEL void copy_out(const float* from, T* to, std::int64_t count, bool add) {
  if (add) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_float<T>(to_float(to[i]) + from[i]);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_float<T>(from[i]);
  }
}

template <class T>
void load_as(const TensorView& view, std::int64_t pixels, const Patch& patch, float* staged) {
  const T* const data = static_cast<const T*>(view.data);
  vectorised([&]() MILLRACE_INLINED {
    for_each_line(view, pixels, patch, [&](std::int64_t offset, std::int64_t line) MILLRACE_INLINED {
      float* const to = staged + line * patch.channels;
      if (!view.by_channel) {
        std::fill_n(to, patch.channels, to_float(data[offset]));
        return;
      }
      for_each_stretch(view, patch, [&](std::int64_t at, std::int64_t first, std::int64_t count) MILLRACE_INLINED {
        copy_in(data + offset + at, to + first, count);
      });
    });
  });
}

template <class T>
void store_as(const TensorView& view, std::int64_t pixels, const Patch& patch, const float* values) {
  T* const data = static_cast<T*>(view.data);
  const std::int64_t end = patch.first_channel + patch.channels;
  const std::int64_t behind = patch.is_end ? view.padded - end : 0;
  if (behind == 0 && view.stride_pixel == patch.channels && is_stretch(view, patch) && is_in_one_sample(pixels, patch)) {
    T* const to = data + offset_of(view, pixels, patch.first_line) + channel_offset(view, patch.first_channel);
    vectorised([&]() MILLRACE_INLINED { copy_out(values, to, patch.lines * patch.channels, view.add); });
    return;
  }
  vectorised([&]() MILLRACE_INLINED {
    for_each_line(view, pixels, patch, [&](std::int64_t offset, std::int64_t line) MILLRACE_INLINED {
      for_each_stretch(view, patch, [&](std::int64_t at, std::int64_t first, std::int64_t count) MILLRACE_INLINED {
        copy_out(values + line * patch.channels + first, data + offset + at, count, view.add);
      });
      for (std::int64_t c = end; c < end + behind; ++c) data[offset + channel_offset(view, c)] = from_float<T>(0.0F);
    });
  });
}

}  // namespace

float* in_place(const TensorView& view, std::int64_t pixels, const Patch& patch) {
  if (view.type != DataType::f32 || !view.by_channel || view.add) return nullptr;
  if (patch.is_end && view.padded != patch.first_channel + patch.channels) return nullptr;
  const bool lines = patch.lines == 1 || (view.stride_pixel == patch.channels &&
                                          (is_in_one_sample(pixels, patch) || view.stride_n == pixels * patch.channels));
  if (!lines || !is_stretch(view, patch)) return nullptr;
  return static_cast<float*>(view.data) + offset_of(view, pixels, patch.first_line) + channel_offset(view, patch.first_channel);
}

const float* load(const TensorView& view, std::int64_t pixels, const Patch& patch, float* staged) {
  TensorView read = view;
  read.add = false;
  Patch inside = patch;
  inside.is_end = false;  // padding is not read
  if (const float* found = in_place(read, pixels, inside)) return found;
  if (view.type == DataType::bf16)
    load_as<Bf16>(view, pixels, patch, staged);
  else
    load_as<float>(view, pixels, patch, staged);
  return staged;
}

void store(const TensorView& view, std::int64_t pixels, const Patch& patch, const float* values) {
  if (view.type == DataType::bf16)
    store_as<Bf16>(view, pixels, patch, values);
  else
    store_as<float>(view, pixels, patch, values);
}

float load_place(const TensorView& view, std::int64_t pixels, std::int64_t line) {
  return static_cast<const float*>(view.data)[offset_of(view, pixels, line)];
}

void store_place(const TensorView& view, std::int64_t pixels, std::int64_t line, float value) {
  float& place = static_cast<float*>(view.data)[offset_of(view, pixels, line)];
  place = view.add ? place + value : value;
}

}  // namespace millrace::portable
