#include "data/resample_kernels.h"

#include <algorithm>
#include <array>

namespace millrace {

namespace {

std::uint8_t to_pixel(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

template <int kChannels>
void narrow_row(const std::uint8_t* in, const NarrowJob& job, std::uint8_t* out) {
  const std::int32_t* weights = job.weights;
  for (int x = 0; x < job.to; ++x, weights += job.taps, out += kChannels) {
    const int taps = std::min(job.taps, job.width - job.first[x]);
    const std::uint8_t* pixel = in + job.first[x] * kChannels;
    std::int32_t sum[kChannels];
    std::fill_n(sum, kChannels, kHalfPixel);
    for (int tap = 0; tap < taps; ++tap, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += pixel[c] * weights[tap];
    }
    for (int c = 0; c < kChannels; ++c) out[c] = to_pixel(sum[c]);
  }
}

}  // namespace

void narrow_plain(const NarrowJob& job, int row) {
  constexpr decltype(&narrow_row<1>) kRow[] = {&narrow_row<1>, &narrow_row<2>, &narrow_row<3>, &narrow_row<4>};
  for (auto r = static_cast<std::size_t>(row); r < static_cast<std::size_t>(job.rows); ++r) {
    kRow[job.channels - 1](job.in + r * job.in_stride, job, job.out + r * job.out_stride);
  }
}

void flatten_plain(const FlattenJob& job) {
  constexpr std::size_t kAtOnce = 64;
  for (std::size_t at = 0; at < job.bytes; at += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, job.bytes - at);
    std::int32_t sums[kAtOnce];
    std::fill_n(sums, kAtOnce, kHalfPixel);
    for (int tap = 0; tap < job.taps; ++tap) {
      const std::uint8_t* row = job.rows + static_cast<std::size_t>(tap) * job.in_stride + at;
      for (std::size_t i = 0; i < count; ++i) sums[i] += row[i] * job.weights[tap];
    }
    for (std::size_t i = 0; i < count; ++i) job.out[at + i] = to_pixel(sums[i]);
  }
}

std::span<const ResampleKernels> resample_kernels() {
  static const struct Found {
    std::array<ResampleKernels, 3> kernels;
    std::size_t count = 0;
    Found() {
#if defined(__x86_64__)
      __builtin_cpu_init();
      const bool avx2 = __builtin_cpu_supports("avx2") != 0;
      if (avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni")) kernels[count++] = kVnniKernels;
      if (avx2) kernels[count++] = kAvx2Kernels;
#endif
      kernels[count++] = {"plain", [](const std::int32_t*, std::int32_t*) {}, [](const NarrowJob& job) { narrow_plain(job, 0); },
                          &flatten_plain};
    }
  } found;
  return {found.kernels.data(), found.count};
}

}  // namespace millrace
