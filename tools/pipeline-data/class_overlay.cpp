#include "class_overlay.h"

#include <algorithm>
#include <cmath>

namespace millrace {

// Hues a golden section of the circle apart (Ankerl, "How to generate random colors programmatically"), in three alternating
// brightnesses.
drawing::Colour class_colour(std::size_t index) {
  constexpr double kValues[] = {255, 180, 120};
  const double turns = 0.61803398875 * static_cast<double>(index), value = kValues[index % 3];
  drawing::Colour colour;
  for (std::size_t c = 0; c < 3; ++c) {
    const double k = std::fmod(static_cast<double>(5 - 2 * c) + 6 * turns, 6);
    colour[c] = static_cast<std::uint8_t>(value * (1 - 0.9 * std::clamp(std::min(k, 4 - k), 0.0, 1.0)));
  }
  return colour;
}

void lay_over(const Image& image, const Image& classes, std::uint8_t ignored, const ClassColour& colour_of) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::size_t pixels = classes.shape.bytes();
  for (std::size_t i = 0; i < pixels; ++i) {
    if (classes.data[i] == ignored) continue;
    const drawing::Colour colour = colour_of(classes.data[i]);
    for (std::size_t c = 0; c < channels; ++c) {
      std::uint8_t& level = image.data[i * channels + c];
      level = static_cast<std::uint8_t>((level + colour[c % 3]) / 2);
    }
  }
}

}  // namespace millrace
