// Images as the bytes of PNG files. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/sample.h"

namespace millrace {

enum class PngEffort {
  small,  // the usual size
  quick,  // a third of the time; drawings are hardly larger for it, photographs by a half
};

// The pixels as they are: grey, grey and alpha, RGB, or RGB and alpha, by the number of channels. `palette`: 256 colours of R, G
// and B, of which each pixel is a number.
//
// REQUIRES: 1 to 4 channels; 1 with a palette. Throws Error(run) that says what libpng refuses, or that this build has no libpng.
std::string png_bytes(const ImageView& image, const std::uint8_t* palette = nullptr, PngEffort effort = PngEffort::small);

bool writes_png();  // whether this build has libpng

}  // namespace millrace
