// Portable kernels as backends see them: an author's functor and its tensors, as data.
//
// A functor works on values only. The framework handles addresses, element types, layouts, padding and accumulation
// (framework/compute on the host, portable_device.cuh on a GPU). All arithmetic is float32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "millrace/detail/tensor.h"
#include "millrace/kernels/kernel.h"

namespace millrace {

// One tensor: element (n, pixel, c) lies at data[n * stride_n + pixel * stride_pixel + c / 16 * stride_block + c % 16], where
// pixel = y * width + x. A stride of 0 repeats the same values. Strides count elements. Owns nothing.
struct TensorView {
  void* data = nullptr;  // null in a row: written values are discarded
  std::int64_t stride_n = 0, stride_pixel = 0, stride_block = 16;
  std::int64_t padded = 0;                           // channels of a place in memory; zeros are written after the last one
  DataType type = DataType::f32;                     // f32 or bf16
  bool by_channel = true;                            // false: one number for all channels of a place
  bool add = false;                                  // add to the present values when writing
  std::int32_t channels = 0, height = 1, width = 1;  // of one image; read only by a gather
};

enum class PortableForm {
  each,    // one value from values
  row,     // all channels of one place
  sum,     // by channel, the sum of one term over places
  gather,  // one value from any values of the same image
};

struct PortableKernel;

// One call of a kernel. A sum runs in two rounds, each an element of its own: first each chunk of places into `partial`, then the
// chunks, in order and in double, into the result.
struct PortableElement {
  static constexpr int kMaxTensors = 13;  // reached by losses with labels
  static constexpr std::size_t kMaxBytes = 64;

  const PortableKernel* kernel = nullptr;  // host memory
  alignas(8) std::array<std::byte, kMaxBytes> functor{};
  std::int64_t n = 0, pixels = 0, channels = 0;  // for a gather: those of the result
  std::int32_t reads = 0, writes = 0;
  double divisor = 1;                              // for a loss: divides the sum of weighted losses; changes from call to call
  std::array<TensorView, kMaxTensors> tensors{};  // tensors read, then tensors written
  float* partial = nullptr;                        // for a sum: (groups, chunks, channels)
  bool by_sample = false;                          // for a sum: one result per sample; otherwise one for all

  const TensorView& written(int index) const { return tensors[static_cast<std::size_t>(reads + index)]; }

  // The division of a sum. It depends on the extents alone, so that results do not depend on threads or devices.
  MILLRACE_KERNEL std::int64_t groups() const { return by_sample ? n : 1; }
  MILLRACE_KERNEL std::int64_t rows() const { return by_sample ? pixels : n * pixels; }  // in a group
  MILLRACE_KERNEL std::int64_t chunk_rows() const {
    const std::int64_t wanted = (rows() + 63) / 64;
    return wanted < 32 ? 32 : wanted < 512 ? wanted : 512;
  }
  MILLRACE_KERNEL std::int64_t chunks() const { return (rows() + chunk_rows() - 1) / chunk_rows(); }
  std::size_t partial_bytes() const { return static_cast<std::size_t>(groups() * chunks() * channels) * sizeof(float); }
};

// The channels of one place on the host, as plain arrays.
struct RowArrays {
  std::int64_t channels = 0;
  double divisor = 1;
  std::array<const float*, PortableElement::kMaxTensors> in{};
  std::array<float*, PortableElement::kMaxTensors> out{};
  std::array<float, PortableElement::kMaxTensors> place_in{};  // for tensors that are not by channel
  std::array<float, PortableElement::kMaxTensors> place_out{};
};

// The unit of a gather on the host: some channels of neighbouring places of one image.
struct GatherPatch {
  const PortableElement* element = nullptr;
  std::int64_t sample = 0;
  std::int32_t first_pixel = 0, pixels = 0;      // in the result
  std::int32_t first_channel = 0, channels = 0;  // if `in_blocks`: within one block of 16
  bool in_blocks = false;                        // tensors read may store channels in blocks, or have several types
};

struct PortableKernel {
  PortableForm form;
  int reads, writes;
  // The functor over arrays in host memory, compiled for each instruction set. Exactly one is set, by form.
  void (*each)(const void* functor, const float* const* in, float* out, std::int64_t count);
  void (*each_bf16)(const void* functor, const Bf16* const* in, Bf16* out, std::int64_t count);
  void (*row)(const void* functor, RowArrays& row);
  // totals[c] += the term at in[...][r * channels + c], for r in order
  void (*sum)(const void* functor, const float* const* in, std::int64_t rows, std::int64_t channels, float* totals);
  // out[pixel * patch.channels + c] = the value of that place and channel of the patch
  void (*gather)(const GatherPatch& patch, float* out);
  Kernel first, second;  // the kernels to submit; `second` for sums alone
};

// The functions of Kernel for an element that holds a PortableElement.
namespace portable {
std::vector<MemoryUse> uses(const void* element);
std::int64_t units(const void* element);
void run_on_host(const void* element, std::int64_t first, std::int64_t last);
std::vector<MemoryUse> finish_uses(const void* element);
std::int64_t finish_units(const void* element);
void finish_on_host(const void* element, std::int64_t first, std::int64_t last);
}  // namespace portable

}  // namespace millrace
