#include "prepare/pixel_counts.h"

#include <algorithm>

namespace millrace {

void PixelCounts::add(const Image& classes, std::uint8_t ignored) {
  std::array<std::uint64_t, 256> found{};
  const std::size_t pixels = classes.shape.bytes();
  for (std::size_t i = 0; i < pixels; ++i) ++found[classes.data[i]];
  ++images_;
  ignored_ += found[ignored];
  counted_ += pixels - found[ignored];
  found[ignored] = 0;
  for (std::size_t index = 0; index < found.size(); ++index) {
    if (found[index] == 0) continue;
    classes_[index].pixels += found[index];
    classes_[index].of_images += pixels;
    ++classes_[index].images;
  }
}

void PixelCounts::add(const PixelCounts& other) {
  for (std::size_t index = 0; index < classes_.size(); ++index) {
    classes_[index].pixels += other.classes_[index].pixels;
    classes_[index].images += other.classes_[index].images;
    classes_[index].of_images += other.classes_[index].of_images;
  }
  images_ += other.images_;
  counted_ += other.counted_;
  ignored_ += other.ignored_;
}

std::size_t PixelCounts::classes() const {
  std::size_t count = classes_.size();
  while (count > 0 && classes_[count - 1].pixels == 0) --count;
  return count;
}

std::vector<double> PixelCounts::median_frequency_weights(std::size_t count) const {
  std::vector<double> sorted, weights(count, 0);
  const auto frequency = [&](std::size_t index) {
    return static_cast<double>(classes_[index].pixels) / static_cast<double>(classes_[index].of_images);
  };
  for (std::size_t index = 0; index < count; ++index) {
    if (classes_[index].pixels > 0) sorted.push_back(frequency(index));
  }
  if (sorted.empty()) return weights;
  std::sort(sorted.begin(), sorted.end());
  const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  for (std::size_t index = 0; index < count; ++index) {
    if (classes_[index].pixels > 0) weights[index] = median / frequency(index);
  }
  return weights;
}

}  // namespace millrace
