#pragma once

#include "millrace/sample.h"

namespace millrace {

// A draw from the beta distribution with both parameters alpha, as one gamma variate's share of the sum of two (Marsaglia and
// Tsang, "A simple method for generating gamma variables", 2000). REQUIRES: alpha > 0.
double draw_beta(Draw& draw, double alpha);

}  // namespace millrace
