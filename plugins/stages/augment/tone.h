// Changes of each channel's levels, in place. Definitions: Pillow's ImageOps.
#pragma once

#include "millrace/sample.h"

namespace millrace::tone {

void invert(const Image& image);
void solarise(const Image& image, double threshold);  // inverts levels of at least the threshold, 0 ... 256
void posterise(const Image& image, int bits);         // keeps the upper bits, 0 ... 8
void equalise(const Image& image);                    // spreads each channel's levels so that all are about equally frequent
void autocontrast(const Image& image);                // stretches each channel's levels to 0 ... 255

}  // namespace millrace::tone
