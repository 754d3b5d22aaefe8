// The picture of a range test of learning rates.
#pragma once

#include <picture.h>

#include "rate_curve.h"

namespace millrace {

inline constexpr drawing::Colour kCurveColour = drawing::kBlue, kProposalColour = drawing::kOrange;

// The losses over the rate. The smoothed loss is a line, single losses are dots; points beyond the axis are not drawn. A vertical
// line marks the proposal. REQUIRES: the curve has points.
drawing::Picture rate_picture(const RateCurve& curve);

}  // namespace millrace
