#include "kernels/gelu_table.h"

#include <array>
#include <cmath>
#include <functional>
#include <numbers>

namespace millrace::cpu {
namespace {

constexpr int kDegree = PiecewiseTable::kCoefficients - 1;
using Polynomial = std::array<double, PiecewiseTable::kCoefficients>;

double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }
double phi_minus_half(double x) { return 0.5 * std::erf(x / std::numbers::sqrt2); }

// Newton's divided differences at Chebyshev nodes of [-half, half], expanded to powers.
Polynomial interpolate(const std::function<double(double)>& f, double middle, double half) {
  Polynomial node{}, difference{}, power{};
  for (int i = 0; i <= kDegree; ++i) {
    const auto at = static_cast<std::size_t>(i);
    node[at] = half * std::cos(std::numbers::pi * (2 * i + 1) / (2.0 * (kDegree + 1)));
    difference[at] = f(middle + node[at]);
  }
  for (std::size_t order = 1; order < node.size(); ++order) {
    for (std::size_t i = node.size() - 1; i >= order; --i) {
      difference[i] = (difference[i] - difference[i - 1]) / (node[i] - node[i - order]);
    }
  }
  power[0] = difference[kDegree];
  for (std::size_t i = kDegree; i-- > 0;) {  // power = power * (u - node[i]) + difference[i]
    for (std::size_t j = kDegree; j > 0; --j) power[j] = power[j - 1] - node[i] * power[j];
    power[0] = difference[i] - node[i] * power[0];
  }
  return power;
}

void fill(PiecewiseTable& table, const std::function<double(double)>& f) {
  for (int interval = 0; interval < PiecewiseTable::kIntervals; ++interval) {
    const double width = PiecewiseTable::kWidth;
    Polynomial power = interpolate(f, (interval + 0.5) * width, width / 2);
    if (interval == PiecewiseTable::kIntervals - 1) power = {0.5};
    for (std::size_t i = 0; i < power.size(); ++i) table.coefficient[i][interval] = static_cast<float>(power[i]);
  }
}

}  // namespace

const GeluTables& gelu_tables() {
  static const GeluTables tables = [] {
    GeluTables made{};
    fill(made.value, phi_minus_half);
    fill(made.slope, [](double x) { return phi_minus_half(x) + x * normal_density(x); });
    return made;
  }();
  return tables;
}

}  // namespace millrace::cpu
