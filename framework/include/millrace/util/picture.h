// Pictures that programs and stages draw: figures, and sheets of images. Whoever draws one writes its file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

using Colour = std::array<std::uint8_t, 3>;  // R, G, B

// Pixels (height, width, 3) to draw on. What is drawn beyond the edges is lost. Not thread-safe.
//
//   Picture picture(40, 100, {255, 255, 255});
//   picture.text(13, 10, "8 images", {0, 0, 0}, 2);
//   write(png_bytes(picture.view()));
//
// Text is set in letters of 5 x 7 dots, each a square of `size` pixels. Letters have one form, the capital. A byte that has no
// letter looks like a box.
class Picture {
 public:
  Picture(int height, int width, Colour ground);

  int height() const { return height_; }
  int width() const { return width_; }
  const std::vector<std::uint8_t>& pixels() const { return pixels_; }
  ImageView view() const { return {pixels_.data(), {height_, width_, 3}}; }
  Colour at(int y, int x) const;  // REQUIRES: within the picture

  void rectangle(int top, int left, int height, int width, Colour colour);
  // From one pixel to another, both included; `thickness` pixels thick, to the right and below.
  void line(int y0, int x0, int y1, int x1, Colour colour, int thickness = 1);
  // An image of 1 or 3 channels; of others the first.
  void image(int top, int left, const ImageView& image);
  void text(int top, int left, std::string_view text, Colour colour, int size = 1);
  // Turned to the left: it begins at the bottom and reads upward. `left` is the top of its letters.
  void text_upward(int bottom, int left, std::string_view text, Colour colour, int size = 1);

 private:
  void set(int y, int x, Colour colour);

  int height_, width_;
  std::vector<std::uint8_t> pixels_;
};

inline constexpr int kTextHeight = 7, kLineHeight = 10;  // of size 1
int text_width(std::string_view text, int size = 1);
std::string shortened(std::string_view text, int width, int size = 1);  // to at most so many pixels, with ".." for the rest

// The shape at which an image is drawn. A small image is repeated as often as needed for its longer side to have `smallest`
// pixels, or as often as `largest` allows; a larger one than `largest` is made to fit.
ImageShape drawn_shape(ImageShape shape, int smallest, int largest);
// The image at that shape: single pixels of a small one stay visible. REQUIRES: to == drawn_shape(image.shape, ...).
std::vector<std::uint8_t> drawn(const ImageView& image, ImageShape to);

}  // namespace millrace
