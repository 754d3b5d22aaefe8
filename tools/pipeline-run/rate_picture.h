// The picture of a range test of learning rates.
#pragma once

#include <string>

#include "millrace/util/picture.h"
#include "rate_curve.h"

namespace millrace {

// The losses over the rate, whose axis has a line for each decade. The smoothed loss is a line, single losses are dots; what
// lies beyond the axis is not drawn. The proposal is marked by an upright line. REQUIRES: the curve has points.
Picture rate_picture(const RateCurve& curve);

// The bytes of a PNG file. Throws Error(run) in a build without libpng.
std::string png_of(const Picture& picture);
bool writes_png();  // whether this build has libpng

}  // namespace millrace
