#pragma once

#include "millrace/sample.h"

namespace millrace {

// From the beta distribution with both parameters alpha, as the share of one of two gamma variates (Marsaglia and Tsang, "A
// simple method for generating gamma variables", 2000). REQUIRES: alpha > 0.
double draw_beta(Draw& draw, double alpha);

}  // namespace millrace
