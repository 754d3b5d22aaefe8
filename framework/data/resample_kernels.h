// The two hot loops of resampling, for each kind of processor. All give the same bytes, since the arithmetic is in integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

inline constexpr int kWeightBits = 32 - 8 - 2;  // fractional bits of a weight: sums of 8-bit pixels stay within 32 bits
inline constexpr std::int32_t kHalfPixel = 1 << (kWeightBits - 1);

struct NarrowJob {
  const std::uint8_t* in;  // (rows, width, channels), rows in_stride bytes apart
  std::size_t in_stride;
  int rows, width, channels;
  const int* first;             // (to): first + taps <= width, unless taps > width
  const std::int32_t* weights;  // (to, taps); taps is a multiple of 4
  const std::int32_t* packed;   // (to, taps): the same weights, packed
  int taps, to;
  std::uint8_t* out;  // (rows, to, channels), rows out_stride bytes apart; kRowPadding bytes after each may be overwritten
  std::size_t out_stride;
};

struct FlattenJob {
  const std::uint8_t* rows;  // (taps), in_stride bytes apart
  std::size_t in_stride;
  const std::int32_t* weights;  // (taps)
  const std::int32_t* packed;   // (taps); null if taps is not a multiple of 4
  int taps;
  std::size_t bytes;
  std::uint8_t* out;  // (bytes)
};

struct ResampleKernels {
  const char* name;
  // Splits four weights into parts that the processor multiplies fast: four words, in a format private to the kernels.
  void (*pack)(const std::int32_t* four, std::int32_t* packed);
  void (*narrow)(const NarrowJob& job);    // along rows
  void (*flatten)(const FlattenJob& job);  // several rows into one
};

inline constexpr std::size_t kRowPadding = 16;

// For any processor; also processes the remainder for the others: rows from `row` on, and narrow images.
void narrow_plain(const NarrowJob& job, int row);
void flatten_plain(const FlattenJob& job);

#if defined(__x86_64__)
extern const ResampleKernels kAvx2Kernels, kVnniKernels;
#endif

// Those that this processor supports, the fastest first; never empty.
std::span<const ResampleKernels> resample_kernels();

}  // namespace millrace
