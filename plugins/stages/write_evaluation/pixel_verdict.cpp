#include "pixel_verdict.h"

#include "mistakes.h"

namespace millrace {

PixelVerdict PixelJudge::judge(std::span<const float> outputs, std::span<const std::uint8_t> labels, std::span<double> matrix,
                               Calibration& calibration) {
  PixelVerdict sums;
  const std::size_t pixels = labels.size();
  predicted_.resize(pixels);
  of_pixel_.resize(classes_);
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < classes_; ++c) of_pixel_[c] = outputs[c * pixels + i];
    const bool counts = labels[i] < classes_;
    const Verdict verdict = Verdict::of(of_pixel_, counts ? labels[i] : 0, probabilities_);
    predicted_[i] = static_cast<std::uint8_t>(verdict.predicted);
    if (!counts) continue;
    const bool right = verdict.predicted == verdict.label;
    matrix[verdict.label * classes_ + verdict.predicted] += 1;
    calibration.add(verdict.confidence, right);
    sums.pixels += 1;
    sums.right += right ? 1 : 0;
    sums.loss += verdict.loss;
  }
  return sums;
}

}  // namespace millrace
