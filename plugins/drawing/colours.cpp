#include <cmath>

#include "picture.h"

namespace millrace::drawing {

Colour mixed(Colour from, Colour to, double share) {
  Colour colour;
  for (std::size_t c = 0; c < colour.size(); ++c) {
    colour[c] =
        static_cast<std::uint8_t>(std::lround(std::lerp(static_cast<double>(from[c]), static_cast<double>(to[c]), share)));
  }
  return colour;
}

Colour ink_on(Colour ground) { return 299 * ground[0] + 587 * ground[1] + 114 * ground[2] < 140'000 ? kPaper : kInk; }

bool Area::meets(const Area& other) const {
  return left < other.right() && other.left < right() && top < other.bottom() && other.top < bottom();
}

Colour Raster::at(int y, int x) const {
  const std::size_t at = 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x));
  return {pixels[at], pixels[at + 1], pixels[at + 2]};
}

double line_height(double size) { return 1.35 * size; }

}  // namespace millrace::drawing
