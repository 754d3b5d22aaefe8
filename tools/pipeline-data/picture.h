// A picture to draw on, and its file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

using Colour = std::array<std::uint8_t, 3>;  // R, G, B

// What is drawn beyond the edges is lost.
class Picture {
 public:
  Picture(int height, int width, Colour ground);

  int height() const { return height_; }
  int width() const { return width_; }
  const std::vector<std::uint8_t>& pixels() const { return pixels_; }  // (height, width, 3)
  Colour at(int y, int x) const;

  void rectangle(int top, int left, int height, int width, Colour colour);
  // An image of 1 or 3 channels; of others the first.
  void image(int top, int left, const ImageView& image);
  void text(int top, int left, std::string_view text, Colour colour);

  // Throws ErrorKind::storage.
  void write_png(const std::string& path) const;

 private:
  void set(int y, int x, Colour colour);

  int height_, width_;
  std::vector<std::uint8_t> pixels_;
};

inline constexpr int kLineHeight = 10;
int text_width(std::string_view text);
std::string shortened(std::string_view text, int width);  // to at most so many pixels

// As far apart from each other as may be, for any number of them; the same index has the same colour always.
Colour class_colour(std::size_t index);

// Lays the classes' colours over an image of the same height and width, half transparent; `ignored` stays as it is.
void lay_over(const Image& image, const Image& classes, std::uint8_t ignored);

}  // namespace millrace
