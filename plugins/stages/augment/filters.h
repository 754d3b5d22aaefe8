// Filters over neighbouring pixels, and noise.
#pragma once

#include <cstdint>

#include "millrace/sample.h"

namespace millrace::filters {

// A blend with a smoothed copy (3 x 3, the middle weighs 5 of 13; the outermost pixels stay): factor 0 is smooth, 1 the image, 2
// sharp. Same as torchvision's adjust_sharpness. `out` has the image's shape and must not be the image.
void sharpness(const ImageView& image, double factor, const Image& out);

// A Gaussian blur with this deviation in pixels, truncated at three deviations; the image is mirrored at its edges. `out` as
// above, or the image itself. sigma: at most 64.
void blur(const ImageView& image, double sigma, const Image& out);

// Adds an independent normal deviate to every channel of every pixel: one of 4,096 quantiles (none beyond 3.7 deviations), chosen
// by the seed and the byte's position alone. deviation: in grey levels.
void noise(const Image& image, double deviation, std::uint64_t seed);

}  // namespace millrace::filters
