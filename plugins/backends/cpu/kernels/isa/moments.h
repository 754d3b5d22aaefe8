// Mean and variance by channel in one pass. Each slice subtracts the mean of its first run from its values, so that the sum of
// squares does not cancel for data far from zero; slices are then merged pairwise in double. Source: Chan, Golub, LeVeque,
// "Algorithms for computing the sample variance", The American Statistician 37 (1983).
#pragma once

#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {

class Moments {
 public:
  explicit Moments(const Tiling& tiling)
      : tiling_(tiling),
        padded_(tiling.blocks * Map::kLanes),
        slices_(slices_of(tiling)),
        partial_(scratch(static_cast<std::size_t>(slices_ * kRows * padded_))) {}

  void clear(std::int64_t slice) const {
    for (std::int64_t i = 0; i < kRows * padded_; ++i) partial_[slice * kRows * padded_ + i] = 0;
  }

  // The values of one run. `first`: true if the run belongs to the slice's first tile.
  template <class T, class Lanes>
  MILLRACE_INLINE void add(std::int64_t slice, bool first, const Run& run, const Map& map, Lanes lanes) const {
    double* const shift = partial_ + slice * kRows * padded_ + run.block * Map::kLanes;
    const Cursor<T> x(map, run);
    const std::int64_t count = run.count;
    if (first) {
      v16 sum{};
      for (std::int64_t i = 0; i < count; ++i) sum += lanes.get(x[i]);
      accumulate(shift, sum / static_cast<float>(count));
    }
    v16 center{}, sum{}, squares{};
    for (int i = 0; i < Map::kLanes; ++i) center[i] = static_cast<float>(shift[i]);
    for (std::int64_t i = 0; i < count; ++i) {
      const v16 difference = lanes.get(x[i]) - center;
      sum += difference;
      squares += difference * difference;
    }
    accumulate(shift + padded_, sum);
    accumulate(shift + 2 * padded_, squares);
  }

  // Merges everything added, in the order of slices. Slice 0's rows become mean, unused, sum of squared differences.
  void finish(std::int64_t channels, float* mean, float* variance) const {
    double *const average = partial_, *const squares = partial_ + 2 * padded_;
    double count = pixels_of(0);
    for (std::int64_t c = 0; c < padded_; ++c) {
      const double offset = partial_[padded_ + c] / count;
      average[c] += offset;
      squares[c] -= partial_[padded_ + c] * offset;
    }
    for (std::int64_t slice = 1; slice < slices_; ++slice) {
      const double more = pixels_of(slice), total = count + more, share = more / total, weight = count * share;
      const double* const mine = partial_ + slice * kRows * padded_;
      for (std::int64_t c = 0; c < padded_; ++c) {
        const double sum = mine[padded_ + c], offset = sum / more, delta = mine[c] + offset - average[c];
        squares[c] += mine[2 * padded_ + c] - sum * offset + delta * delta * weight;
        average[c] += delta * share;
      }
      count = total;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      mean[c] = static_cast<float>(average[c]);
      variance[c] = squares[c] < 0 ? 0.0F : static_cast<float>(squares[c] / count);  // NaN stays NaN
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
