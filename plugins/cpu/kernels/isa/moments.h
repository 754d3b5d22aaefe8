// Mean and variance by channel in one pass. Each slice subtracts from its values the mean of its own first run, so that the sum of
// squares does not cancel, however far from zero the data are; slices are then joined pair by pair in double.
// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983).
#pragma once

#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {

class Moments {
 public:
  explicit Moments(const Tiling& tiling)
      : tiling_(tiling), padded_(tiling.blocks * Map::kLanes), slices_(slices_of(tiling)),
        partial_(scratch(static_cast<std::size_t>(slices_ * kRows * padded_))) {}

  void clear(std::int64_t slice) const {
    for (std::int64_t i = 0; i < kRows * padded_; ++i) partial_[slice * kRows * padded_ + i] = 0;
  }

  // The values of one run. `first`: whether the run belongs to the slice's first tile.
  template <class T, class Lanes>
  MILLRACE_INLINE void add(std::int64_t slice, bool first, const Run& run, const T* x, std::int64_t stride, Lanes lanes) const {
    double* const shift = partial_ + slice * kRows * padded_ + run.block * Map::kLanes;
    if (first) {
      v16 sum{};
      for (std::int64_t i = 0; i < run.count; ++i) sum += lanes.get(x + i * stride);
      accumulate(shift, sum / static_cast<float>(run.count));
    }
    v16 center{}, sum{}, squares{};
    for (int i = 0; i < Map::kLanes; ++i) center[i] = static_cast<float>(shift[i]);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const v16 difference = lanes.get(x + i * stride) - center;
      sum += difference;
      squares += difference * difference;
    }
    accumulate(shift + padded_, sum);
    accumulate(shift + 2 * padded_, squares);
  }

  // Everything that was added, in the order of slices.
  void finish(std::int64_t channels, float* mean, float* variance) const {
    for (std::int64_t c = 0; c < channels; ++c) {
      double count = 0, average = 0, squares = 0;
      for (std::int64_t slice = 0; slice < slices_; ++slice) {
        const double* const mine = partial_ + slice * kRows * padded_ + c;
        const double more = pixels_of(slice), offset = mine[padded_] / more;
        const double delta = mine[0] + offset - average, total = count + more;
        squares += mine[2 * padded_] - mine[padded_] * offset + delta * delta * count * more / total;
        average += delta * more / total;
        count = total;
      }
      mean[c] = static_cast<float>(average);
      variance[c] = squares > 0 || squares != squares ? static_cast<float>(squares / count) : 0.0F;
    }
  }

 private:
  static constexpr std::int64_t kRows = 3;  // shift, sum, sum of squares

  double pixels_of(std::int64_t slice) const {
    const std::int64_t begin = tiling_.items * slice / slices_, end = tiling_.items * (slice + 1) / slices_;
    return static_cast<double>(first_pixel(end) - first_pixel(begin));
  }
  std::int64_t first_pixel(std::int64_t item) const {  // counted over all samples
    return item / tiling_.tiles_per_plane * tiling_.pixels + item % tiling_.tiles_per_plane * tiling_.tile;
  }

  Tiling tiling_;
  std::int64_t padded_, slices_;
  double* partial_;
};

}  // namespace millrace::cpu::MILLRACE_ISA
