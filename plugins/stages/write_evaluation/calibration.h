#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace millrace {

// How far confidence is from accuracy. Images are put into 15 bins of the same width by their confidence, the score of the
// predicted class: bin m holds those above m / 15 and up to (m + 1) / 15. The expected calibration error is the mean over images
// of |accuracy - confidence| of their bin. A confidence that is no number counts as 0. Guo, Pleiss, Sun and Weinberger, "On
// calibration of modern neural networks", arXiv 1706.04599, equation 3.
class Calibration {
 public:
  static constexpr std::size_t kBins = 15;
  struct Bin {
    double count = 0, confidence = 0, right = 0;  // sums
  };

  void add(double confidence, bool right) {
    if (!(confidence > 0)) confidence = 0;
    const double place = std::clamp(std::ceil(confidence * static_cast<double>(kBins)) - 1, 0.0, static_cast<double>(kBins - 1));
    Bin& bin = bins_[static_cast<std::size_t>(place)];
    bin.count += 1;
    bin.confidence += confidence;
    bin.right += right ? 1 : 0;
  }
  double expected_error() const {
    double difference = 0, count = 0;
    for (const Bin& bin : bins_) {
      difference += std::abs(bin.right - bin.confidence);  // |accuracy - confidence| * count
      count += bin.count;
    }
    return count > 0 ? difference / count : 0;
  }
  const std::array<Bin, kBins>& bins() const { return bins_; }

 private:
  std::array<Bin, kBins> bins_{};
};

}  // namespace millrace
