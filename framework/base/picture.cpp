#include "millrace/util/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/font.h"
#include "millrace/util/resample.h"

namespace millrace {
namespace {

// Calls put(y, x) for each dot of the text's letters, from its top left corner.
template <class Put>
void each_dot(std::string_view text, Put put) {
  int left = 0;
  for (const char character : text) {
    const auto& rows = glyph(character);
    for (int y = 0; y < kGlyphHeight; ++y) {
      for (int x = 0; x < kGlyphWidth; ++x) {
        if ((rows[static_cast<std::size_t>(y)] >> (kGlyphWidth - 1 - x) & 1) != 0) put(y, left + x);
      }
    }
    left += kGlyphWidth + 1;
  }
}

}  // namespace

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

void Picture::line(int y0, int x0, int y1, int x1, Colour colour, int thickness) {
  const int steps = std::max({std::abs(y1 - y0), std::abs(x1 - x0), 1});
  for (int step = 0; step <= steps; ++step) {
    const double share = static_cast<double>(step) / steps;
    rectangle(static_cast<int>(std::lround(std::lerp(y0, y1, share))), static_cast<int>(std::lround(std::lerp(x0, x1, share))),
              thickness, thickness, colour);
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

void Picture::text(int top, int left, std::string_view text, Colour colour, int size) {
  each_dot(text, [&](int y, int x) { rectangle(top + y * size, left + x * size, size, size, colour); });
}

void Picture::text_upward(int bottom, int left, std::string_view text, Colour colour, int size) {
  each_dot(text, [&](int y, int x) { rectangle(bottom - (x + 1) * size, left + y * size, size, size, colour); });
}

int text_width(std::string_view text, int size) {
  return size * (static_cast<int>(text.size()) * (kGlyphWidth + 1) - (text.empty() ? 0 : 1));
}

std::string shortened(std::string_view text, int width, int size) {
  if (text_width(text, size) <= width) return std::string(text);
  const int characters = std::max(0, (width / size + 1) / (kGlyphWidth + 1) - 2);
  return std::string(text.substr(0, static_cast<std::size_t>(characters))) + "..";
}

ImageShape drawn_shape(ImageShape shape, int smallest, int largest) {
  const int side = std::max(shape.height, shape.width);
  if (side > largest) {
    const double scale = static_cast<double>(largest) / side;
    const auto scaled = [scale](int extent) { return std::max(1, static_cast<int>(std::lround(scale * extent))); };
    return {scaled(shape.height), scaled(shape.width), shape.channels};
  }
  const int times = std::clamp((smallest + side - 1) / side, 1, largest / side);
  return {shape.height * times, shape.width * times, shape.channels};
}

std::vector<std::uint8_t> drawn(const ImageView& image, ImageShape to) {
  std::vector<std::uint8_t> out(to.bytes());
  if (to.height < image.shape.height || to.width < image.shape.width) {
    thread_local Resampler resampler;
    resampler.resize(image, to, out.data());
    return out;
  }
  const auto channels = static_cast<std::size_t>(to.channels);
  const int times = to.height / image.shape.height;
  std::uint8_t* pixel = out.data();
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x, pixel += channels) {
      std::copy_n(image.data + static_cast<std::size_t>(y / times * image.shape.width + x / times) * channels, channels, pixel);
    }
  }
  return out;
}

}  // namespace millrace
