// Reads a camera's orientation from EXIF or XMP, and turns images upright.
#pragma once

#include <cstdint>
#include <span>

#include "excerpt.h"
#include "millrace/util/resample.h"

namespace millrace {

// The orientation of a file: 1 ... 8 as in the EXIF tag 0x0112; 1 (upright) if missing or invalid. Never throws. A PNG has it in
// its chunk eXIf or in a text "Raw profile type exif" or "APP1". Without the tag, tiff:Orientation of XMP counts (APP1 of a JPEG,
// uncompressed iTXt of a PNG), as in Pillow's Image.getexif(): for PNGs since version 7.2, for JPEGs since 11. OpenCV and
// browsers read EXIF alone.
int jpeg_orientation(std::span<const std::uint8_t> jpeg);
int png_orientation(std::span<const std::uint8_t> png);

inline bool swaps_sides(int orientation) { return orientation >= 5; }

// Maps a part of the upright image to the stored one of height x width, and back. Exact for whole numbers.
Box to_stored(const Box& upright, int orientation, int height, int width);
Box to_upright(const Box& stored, int orientation, int height, int width);

// Copies the stored pixels upright. `out` is (height, width, C) of the upright image.
void turn_upright(const PixelRows& stored, int orientation, std::uint8_t* out);

}  // namespace millrace
