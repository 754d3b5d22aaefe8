// PNG files of every kind, made with libpng for the tests.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::testing_png {

enum class Colour { grey, rgb, palette, grey_alpha, rgba };

struct Recipe {
  int height = 16, width = 16;
  Colour colour = Colour::rgb;
  int depth = 8;
  bool interlaced = false;
  bool text = false;                       // with a text chunk before the pixels
  int orientation = 0;                     // in a chunk eXIf, 1 ... 8; 0: none
  int transparent = -1;                    // a transparent palette index or grey value
  std::vector<std::uint16_t> values = {};  // (height, width, channels) of 0 ... 2^depth - 1
  std::vector<std::uint8_t> palette = {};  // (colours, 3)
};

int channels(Colour colour);
std::vector<std::uint16_t> random_values(const Recipe& recipe, std::uint64_t seed);
std::vector<std::uint8_t> encode(const Recipe& recipe);

}  // namespace millrace::testing_png
