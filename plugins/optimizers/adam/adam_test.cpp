#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

Formula formula(double beta1, double beta2, double epsilon) {
  return by_element([=](const FormulaStep& s, std::size_t i) {
    const double g = s.gradient[i] + s.decay * s.value[i];
    double &m = s.states["momentum"][i], &v = s.states["variance"][i];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double mean = m / (1 - std::pow(beta1, s.t)), square = v / (1 - std::pow(beta2, s.t));
    s.value[i] -= s.rate * mean / (std::sqrt(square) + epsilon);
  });
}

TEST(Adam, FollowsItsFormula) {
  expect_follows("adam", {}, formula(0.9, 0.999, 1e-8));
  expect_follows("adam", table({{"beta1", Value(0.5)}, {"beta2", Value(0.75)}, {"epsilon", Value(0.01)}}),
                 formula(0.5, 0.75, 0.01));
}

TEST(Adam, SharesOfOneAndEpsilonOfZeroAreMistakes) {
  EXPECT_THROW(testkit::make_optimizer("adam", table({{"epsilon", Value(0.0)}})), Error);
  EXPECT_THROW(testkit::make_optimizer("adam", table({{"beta1", Value(1.0)}})), Error);
  EXPECT_THROW(testkit::make_optimizer("adam", table({{"beta2", Value(1.0)}})), Error);
}

}  // namespace
}  // namespace millrace
