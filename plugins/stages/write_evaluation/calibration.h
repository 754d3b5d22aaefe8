#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Calibration: the distance between confidence and accuracy. Images are put into 15 bins of equal width by their confidence, the
// score of the predicted class: bin m holds those above m / 15 and up to (m + 1) / 15. The expected calibration error is the mean
// over images of |accuracy - confidence| of their bin. NaN counts as 0. Guo, Pleiss, Sun and Weinberger, "On calibration of
// modern neural networks", arXiv 1706.04599, equation 3. Sums do not depend on order: confidence is counted in units of 2^-28,
// with room for 6e10 images or pixels per bin.
class Calibration {
 public:
  static constexpr std::size_t kBins = 15;
  struct Bin {
    std::uint64_t count = 0, right = 0, units = 0;  // sums

    double confidence() const { return std::ldexp(static_cast<double>(units), -kUnitBits); }  // their sum
  };
  using Bins = std::array<Bin, kBins>;

  void add(double confidence, bool right) {
    if (!(confidence > 0)) confidence = 0;
    const double place = std::clamp(std::ceil(confidence * static_cast<double>(kBins)) - 1, 0.0, static_cast<double>(kBins - 1));
    Bin& bin = bins_[static_cast<std::size_t>(place)];
    bin.count += 1;
    bin.right += right ? 1 : 0;
    bin.units += static_cast<std::uint64_t>(std::llround(std::ldexp(std::min(confidence, 1.0), kUnitBits)));
  }
  void add(const Bins& others) {
    for (std::size_t i = 0; i < kBins; ++i) {
      bins_[i].count += others[i].count;
      bins_[i].right += others[i].right;
      bins_[i].units += others[i].units;
    }
  }
  double expected_error() const {
    double difference = 0, count = 0;
    for (const Bin& bin : bins_) {
      difference += std::abs(static_cast<double>(bin.right) - bin.confidence());  // |accuracy - confidence| * count
      count += static_cast<double>(bin.count);
    }
    return count > 0 ? difference / count : 0;
  }
  const Bins& bins() const { return bins_; }

 private:
  static constexpr int kUnitBits = 28;
  Bins bins_{};
};

}  // namespace millrace
