// Sheets of images with lines of text below them.
#pragma once

#include <string>
#include <vector>

#include "picture.h"

namespace millrace::drawing {

// An image that a sheet keeps until it is drawn: no larger than it will be drawn.
struct KeptImage {
  ImageShape shape = {0, 0, 3};
  std::vector<std::uint8_t> pixels;
};
inline constexpr int kLargestKept = 384;  // pixels of its longer side: a larger image is made to fit
KeptImage kept(const ImageView& image);

struct Caption {
  std::string text;
  Colour colour = kInk;
};

struct SheetCell {
  std::vector<KeptImage> images;  // side by side
  std::vector<Caption> captions;  // lines
  bool is_bad = false;            // a sample without an image: a red area stands for it
};

struct Sheet {
  std::string title, subtitle;   // may be empty
  std::vector<SheetCell> cells;  // row after row
  std::vector<Caption> legend;   // names beside their colours
  double largest = 192;          // the longer side of an image, at most; in units
  double smallest_cell = 128;    // its width: room for captions
  double apart = 16;             // from one cell to the next
};

Picture draw(const Sheet& sheet);

// Bytes that so many cells of so many images each take at most, the picture and its file included. `shape`: of an image; one that
// varies is of the largest that is kept.
std::size_t sheet_memory_bound(std::size_t cells, std::size_t images, ImageShape shape);

}  // namespace millrace::drawing
