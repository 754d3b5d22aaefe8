// Sheets of images with lines of text below them.
#pragma once

#include <string>
#include <vector>

#include "picture.h"

namespace millrace::drawing {

// An image kept for a sheet, at most at its drawn size.
struct KeptImage {
  ImageShape shape = {0, 0, 3};
  std::vector<std::uint8_t> pixels;
};
inline constexpr int kLargestKept = 384;  // maximum longer side in pixels; larger images are shrunk
KeptImage kept(const ImageView& image);

struct Caption {
  std::string text;
  Colour colour = kInk;
};

struct SheetCell {
  std::vector<KeptImage> images;  // side by side
  std::vector<Caption> captions;  // lines
  bool is_bad = false;            // a sample without an image, drawn as a red area
};

struct Sheet {
  std::string title, subtitle;   // may be empty
  std::vector<SheetCell> cells;  // row by row
  std::vector<Caption> legend;   // names with their colours
  double largest = 192;          // maximum longer side of an image, in units
  double smallest_cell = 128;    // minimum width, for captions
  double apart = 16;             // distance between cells
};

Picture draw(const Sheet& sheet);

// Upper bound in bytes for this many cells with this many images each, including the picture and its file. `shape`: of an image;
// if it varies, the largest kept one.
std::size_t sheet_memory_bound(std::size_t cells, std::size_t images, ImageShape shape);

}  // namespace millrace::drawing
