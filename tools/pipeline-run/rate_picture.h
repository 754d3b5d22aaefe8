// The picture of a range test of learning rates.
#pragma once

#include <picture.h>

#include "rate_curve.h"

namespace millrace {

inline constexpr drawing::Colour kCurveColour = drawing::kBlue, kProposalColour = drawing::kOrange;

// The losses over the rate. The smoothed loss is a line, single losses are dots; what lies beyond the axis is not drawn. The
// proposal is marked by an upright line. REQUIRES: the curve has points.
drawing::Picture rate_picture(const RateCurve& curve);

}  // namespace millrace
