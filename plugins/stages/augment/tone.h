// Changes of each channel's levels, in place. Definitions: Pillow's ImageOps.
#pragma once

#include "millrace/sample.h"

namespace millrace::tone {

void invert(const Image& image);
void solarise(const Image& image, double threshold);  // inverts levels >= threshold, 0 ... 256
void posterise(const Image& image, int bits);         // keeps this number of upper bits, 0 ... 8
void equalise(const Image& image);                    // makes each channel's levels about equally frequent
void autocontrast(const Image& image);                // stretches each channel's levels to 0 ... 255

}  // namespace millrace::tone
