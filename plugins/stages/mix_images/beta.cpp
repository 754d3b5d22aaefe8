#include "beta.h"

#include <cmath>

namespace millrace {

namespace {

// Uses the logarithm because variates of a small alpha are too small for a double.
double draw_log_gamma(Draw& draw, double alpha) {
  if (alpha < 1) return draw_log_gamma(draw, alpha + 1) + std::log(1 - draw.uniform()) / alpha;
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draw.normal(), root = 1 + c * x, v = root * root * root;
    if (root <= 0) continue;
    if (std::log(1 - draw.uniform()) < 0.5 * x * x + d * (1 - v + std::log(v))) return std::log(d * v);
  }
}

}  // namespace

double draw_beta(Draw& draw, double alpha) {
  const double first = draw_log_gamma(draw, alpha), second = draw_log_gamma(draw, alpha);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace millrace
