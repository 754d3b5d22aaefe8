#include "picture.h"

#include <png.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "font.h"
#include "millrace/error.h"

namespace millrace {

Picture::Picture(int height, int width, Colour ground)
    : height_(height),
      width_(width),
      pixels_(std::size_t{3} * static_cast<std::size_t>(height) * static_cast<std::size_t>(width)) {
  rectangle(0, 0, height, width, ground);
}

void Picture::set(int y, int x, Colour colour) {
  if (y < 0 || y >= height_ || x < 0 || x >= width_) return;
  const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  std::copy(colour.begin(), colour.end(), pixels_.begin() + static_cast<std::ptrdiff_t>(3 * at));
}

Colour Picture::at(int y, int x) const {
  const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  return {pixels_[3 * at], pixels_[3 * at + 1], pixels_[3 * at + 2]};
}

void Picture::rectangle(int top, int left, int height, int width, Colour colour) {
  for (int y = top; y < top + height; ++y) {
    for (int x = left; x < left + width; ++x) set(y, x, colour);
  }
}

void Picture::image(int top, int left, const ImageView& image) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::uint8_t* pixel = image.data;
  for (int y = 0; y < image.shape.height; ++y) {
    for (int x = 0; x < image.shape.width; ++x, pixel += channels) {
      set(top + y, left + x, channels == 3 ? Colour{pixel[0], pixel[1], pixel[2]} : Colour{pixel[0], pixel[0], pixel[0]});
    }
  }
}

void Picture::text(int top, int left, std::string_view text, Colour colour) {
  for (const char character : text) {
    const auto& rows = glyph(character);
    for (int y = 0; y < kGlyphHeight; ++y) {
      for (int x = 0; x < kGlyphWidth; ++x) {
        if ((rows[static_cast<std::size_t>(y)] >> (kGlyphWidth - 1 - x) & 1) != 0) set(top + y, left + x, colour);
      }
    }
    left += kGlyphWidth + 1;
  }
}

void Picture::write_png(const std::string& path) const {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  info.width = static_cast<png_uint_32>(width_);
  info.height = static_cast<png_uint_32>(height_);
  info.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&info, path.c_str(), 0, pixels_.data(), 0, nullptr) == 0) {
    fail(ErrorKind::storage, "cannot write '{}': {}", path, info.message);
  }
}

int text_width(std::string_view text) { return static_cast<int>(text.size()) * (kGlyphWidth + 1) - (text.empty() ? 0 : 1); }

std::string shortened(std::string_view text, int width) {
  if (text_width(text) <= width) return std::string(text);
  const int characters = std::max(0, (width + 1) / (kGlyphWidth + 1) - 2);
  return std::string(text.substr(0, static_cast<std::size_t>(characters))) + "..";
}

// Hues a golden section of the circle apart (Ankerl, "How to generate random colors programmatically"), in three brightnesses in
// turns.
Colour class_colour(std::size_t index) {
  constexpr double kValues[] = {255, 180, 120};
  const double turns = 0.61803398875 * static_cast<double>(index), value = kValues[index % 3];
  Colour colour;
  for (std::size_t c = 0; c < 3; ++c) {
    const double k = std::fmod(static_cast<double>(5 - 2 * c) + 6 * turns, 6);
    colour[c] = static_cast<std::uint8_t>(value * (1 - 0.9 * std::clamp(std::min(k, 4 - k), 0.0, 1.0)));
  }
  return colour;
}

void lay_over(const Image& image, const Image& classes, std::uint8_t ignored) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::size_t pixels = classes.shape.bytes();
  for (std::size_t i = 0; i < pixels; ++i) {
    if (classes.data[i] == ignored) continue;
    const Colour colour = class_colour(classes.data[i]);
    for (std::size_t c = 0; c < channels; ++c) {
      std::uint8_t& level = image.data[i * channels + c];
      level = static_cast<std::uint8_t>((level + colour[c % 3]) / 2);
    }
  }
}

}  // namespace millrace
