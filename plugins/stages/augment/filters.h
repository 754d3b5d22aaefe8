// What looks at neighbours, and noise.
#pragma once

#include <cstdint>

#include "millrace/sample.h"

namespace millrace::filters {

// A blend with a smoothed copy (3 x 3, the middle weighs 5 of 13; the outermost pixels stay): factor 0 is smooth, 1 the image, 2
// sharp. As torchvision's adjust_sharpness. `out` has the image's shape and is not the image.
void sharpness(const ImageView& image, double factor, const Image& out);

// A Gaussian of this deviation in pixels, cut off beyond three of them; the image is mirrored at its edges. `out` as above, or
// the image itself. sigma: at most 64.
void blur(const ImageView& image, double sigma, const Image& out);

// Adds to every channel of every pixel a normal deviate of its own, one of 4,096 quantiles (none is beyond 3.7 deviations). Which
// one is a function of the seed and the byte's place alone. deviation: of grey levels.
void noise(const Image& image, double deviation, std::uint64_t seed);

}  // namespace millrace::filters
