// GELU and its derivative by piecewise polynomials. Phi(x) - 1/2 and Phi(x) + x phi(x) - 1/2 are odd, so one table each over [0,
// 6.5) in 16 intervals suffices; a permutation instruction looks up all 16 lanes' coefficients at once, which costs a third of a
// rational erf with its exponential. The coefficients are computed at start, in double, by interpolating std::erfc and std::exp
// at the Chebyshev nodes of each interval (Trefethen, "Approximation Theory and Approximation Practice", ch. 4 and 8). With
// degree 5 and intervals of 13/32 the error of interpolation stays below 1e-7; the last interval is exactly 1/2.
#pragma once

namespace millrace::cpu {

struct PiecewiseTable {
  static constexpr int kIntervals = 16, kCoefficients = 6;
  static constexpr float kWidth = 0.40625F;                  // 13/32: the middles of intervals are exact
  static constexpr float kLimit = 6.4999F;                   // arguments are clamped here, inside the last interval
  alignas(64) float coefficient[kCoefficients][kIntervals];  // by power of (|x| - middle of the interval)
};

struct GeluTables {
  PiecewiseTable value;  // Phi(x) - 1/2
  PiecewiseTable slope;  // Phi(x) + x phi(x) - 1/2
};
const GeluTables& gelu_tables();

}  // namespace millrace::cpu
