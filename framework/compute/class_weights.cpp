#include "millrace/util/class_weights.h"
#include "millrace/batch.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace {

ClassWeights::ClassWeights(const std::vector<double>& numbers) : weights_(numbers.begin(), numbers.end()) {
  for (const float weight : weights_) {
    if (!(weight >= 0)) fail(ErrorKind::usage, "class_weights must be 0 or more, found {}", weight);
  }
  if (!weights_.empty() && std::ranges::none_of(weights_, [](float weight) { return weight > 0; })) {
    fail(ErrorKind::usage, "class_weights are all 0, so nothing would be learned: at least one must be above 0");
  }
}

void ClassWeights::check(const LossSetting& setting) const {
  if (weights_.empty() || static_cast<std::int64_t>(weights_.size()) == setting.output[0]) return;
  fail(ErrorKind::usage, "class_weights: {} numbers, but the network's output has {} channels", weights_.size(),
       setting.output[0]);
}

std::vector<float> ClassWeights::constants(std::int64_t channels) const {
  return weights_.empty() ? std::vector<float>(static_cast<std::size_t>(channels), 1.0F) : weights_;
}

double ClassWeights::of(std::int64_t number) const {
  if (number < 0) return 0;
  if (weights_.empty()) return 1;
  return static_cast<std::size_t>(number) < weights_.size() ? static_cast<double>(weights_[static_cast<std::size_t>(number)]) : 0;
}

double ClassWeights::of_labels(const Batch& batch, Share slots) const {
  double total = 0;
  for (std::uint32_t slot = slots.begin; slot < slots.begin + slots.count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    const double share = batch.shares != nullptr ? static_cast<double>(batch.shares[slot]) : 1;
    double weight = share * of(batch.labels[slot]);
    if (share < 1) weight += (1 - share) * of(batch.second_labels[slot]);
    total += static_cast<double>(batch.weights[slot]) * weight;
  }
  return total;
}

double ClassWeights::of_label_images(const Batch& batch, Share slots) const {
  const std::vector<double> pixels = count_target_classes(batch, slots);
  double total = 0;
  for (std::size_t c = 0; c < pixels.size(); ++c) total += pixels[c] * of(static_cast<std::int64_t>(c));
  return total;
}

}  // namespace millrace
