// Encodes images as PNG files. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/sample.h"

namespace millrace {

enum class PngEffort {
  small,  // the usual size
  quick,  // a third of the time; drawings grow little, photographs by a half
};

// The unchanged pixels: grey, grey and alpha, RGB, or RGB and alpha, by the number of channels. `palette`: 256 colours of R, G
// and B, indexed by the pixels.
//
// REQUIRES: 1 to 4 channels; 1 with a palette. Throws Error(run) with libpng's error, or if this build has no libpng.
std::string png_bytes(const ImageView& image, const std::uint8_t* palette = nullptr, PngEffort effort = PngEffort::small);

bool writes_png();  // true if this build has libpng

}  // namespace millrace
