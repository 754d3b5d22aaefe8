// How a camera was held, as EXIF or XMP notes it, and turning what it saw upright.
#pragma once

#include <cstdint>
#include <span>

#include "excerpt.h"
#include "millrace/util/resample.h"

namespace millrace {

// The orientation of a file: 1 ... 8 as in the EXIF tag 0x0112; 1, which is upright, where it is missing or makes no sense. Never
// throws. A PNG has it in its chunk eXIf, or in a text "Raw profile type exif" or "APP1". Without the tag, tiff:Orientation of
// XMP counts (APP1 of a JPEG, iTXt of a PNG that is not compressed), as in Pillow's Image.getexif(): of PNGs since version 7.2,
// of JPEGs since 11. OpenCV and browsers read EXIF alone.
int jpeg_orientation(std::span<const std::uint8_t> jpeg);
int png_orientation(std::span<const std::uint8_t> png);

inline bool swaps_sides(int orientation) { return orientation >= 5; }

// Where a part of the upright image lies in the stored one of height x width, and the other way round. Exact for whole numbers.
Box to_stored(const Box& upright, int orientation, int height, int width);
Box to_upright(const Box& stored, int orientation, int height, int width);

// Copies the stored pixels so that they stand upright. `out` is (height, width, C), those of the upright image.
void turn_upright(const PixelRows& stored, int orientation, std::uint8_t* out);

}  // namespace millrace
