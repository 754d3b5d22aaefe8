#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

Formula lion_formula(double beta1, double beta2) {
  return by_element([=](const FormulaStep& s, std::size_t i) {
    const double g = s.gradient[i];
    double& m = s.states["momentum"][i];
    const double c = beta1 * m + (1 - beta1) * g;
    s.value[i] -= s.rate * ((c > 0) - (c < 0) + s.decay * s.value[i]);
    m = beta2 * m + (1 - beta2) * g;
  });
}

TEST(Lion, FollowsItsFormula) {
  expect_follows("lion", {}, lion_formula(0.9, 0.99));
  expect_follows("lion", table({{"beta1", Value(0.0)}, {"beta2", Value(0.5)}}), lion_formula(0, 0.5));
}

TEST(Lion, SharesOfOneAreMistakes) {
  EXPECT_THROW(testkit::make_optimizer("lion", table({{"beta1", Value(1.0)}})), Error);
  EXPECT_THROW(testkit::make_optimizer("lion", table({{"beta2", Value(1.0)}})), Error);
}

}  // namespace
}  // namespace millrace
