#include "millrace/metrics/class_scores.h"

#include <algorithm>

namespace millrace {

ClassScores::ClassScores(std::span<const float> outputs, bool probabilities)
    : outputs_(outputs),
      probabilities_(probabilities),
      predicted_(static_cast<std::size_t>(std::ranges::max_element(outputs, {}, rank_key) - outputs.begin())),
      most_(outputs[predicted_]) {
  if (probabilities) return;
  for (const float output : outputs) sum_ += std::exp(output - most_);
}

double ClassScores::probability(std::size_t of) const {
  return probabilities_ ? outputs_[of] : std::exp(outputs_[of] - most_) / sum_;
}

double ClassScores::loss(std::size_t label) const {
  return probabilities_ ? -std::log(double{outputs_[label]}) : std::log(sum_) + most_ - outputs_[label];
}

void PixelClasses::find(std::span<const float> outputs, std::size_t pixels, std::vector<std::uint8_t>& classes) {
  classes.assign(pixels, 0);
  largest_.assign(pixels, -std::numeric_limits<float>::infinity());
  for (std::size_t first = 0; first < outputs.size(); first += pixels) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      const float output = outputs[first + pixel];
      if (!(output > largest_[pixel])) continue;  // NaN is never larger
      largest_[pixel] = output;
      classes[pixel] = static_cast<std::uint8_t>(first / pixels);
    }
  }
}

}  // namespace millrace
