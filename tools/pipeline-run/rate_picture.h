// The picture of a range test of learning rates.
#pragma once

#include "millrace/util/picture.h"
#include "rate_curve.h"

namespace millrace {

// The losses over the rate, whose axis has a line for each decade. The smoothed loss is a line, single losses are dots; what
// lies beyond the axis is not drawn. The proposal is marked by an upright line. REQUIRES: the curve has points.
Picture rate_picture(const RateCurve& curve);

}  // namespace millrace
