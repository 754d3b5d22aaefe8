// The picture of a range test of learning rates.
#pragma once

#include <span>
#include <string>

#include "millrace/picture.h"
#include "rate_curve.h"

namespace millrace {

// The losses over the rate, whose axis has a line for each decade. The smoothed loss is a line, single losses are dots; what
// lies beyond the axis is not drawn. `proposal`: marked by an upright line; 0: there is none. REQUIRES: points is not empty;
// rates rise.
Picture rate_picture(std::span<const RatePoint> points, double proposal);

// The bytes of a PNG file. Throws Error(run) in a build without libpng.
std::string png_of(const Picture& picture);
bool writes_png();  // whether this build has libpng

}  // namespace millrace
