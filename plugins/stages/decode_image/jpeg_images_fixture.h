// JPEG files of every kind, made with libjpeg for the tests.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::testing_jpeg {

enum class Kind { grey, rgb, cmyk, ycck };

struct Recipe {
  int height = 16, width = 16;
  Kind kind = Kind::rgb;
  bool progressive = false;
  bool many_scans = false;  // progressive, one scan for each coefficient: 190 for RGB
  bool adobe = true;        // CMYK and YCCK: with Adobe's marker
  int quality = 95;
  int horizontal = 2, vertical = 2;       // for RGB: this many columns and rows share one chroma sample
  int blue_horizontal = 1, blue_vertical = 1;  // the same for the first chroma channel; no encoder writes such files
  bool optimized = false;                 // with its own Huffman tables
  unsigned restart = 0;                   // blocks between restart markers
  int orientation = 0;                    // in EXIF; 0: no EXIF
  std::vector<std::uint8_t> pixels = {};  // (height, width, components); empty: a gradient
};

int components(Kind kind);
std::vector<std::uint8_t> noise(int height, int width, int channels, std::uint64_t seed);  // smooth here, noisy there
std::vector<std::uint8_t> gradient(int height, int width, int channels);
std::vector<std::uint8_t> encode(const Recipe& recipe);

}  // namespace millrace::testing_jpeg
