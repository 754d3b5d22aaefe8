#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

TEST(Sgd, FollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    expect_follows("sgd", table({{"momentum", Value(0.9)}, {"nesterov", Value(nesterov)}}),
                   by_element([nesterov](const FormulaStep& s, std::size_t i) {
                     const double g = s.gradient[i] + s.decay * s.value[i];
                     double& v = s.states["momentum"][i];
                     v = 0.9 * v + g;
                     s.value[i] -= s.rate * (nesterov ? g + 0.9 * v : v);
                   }));
  }
}

TEST(Sgd, KeepsNothingWithoutMomentum) {
  EXPECT_TRUE(testkit::make_optimizer("sgd")->states().empty());
  expect_follows("sgd", {}, by_element([](const FormulaStep& s, std::size_t i) {
                   s.value[i] -= s.rate * (s.gradient[i] + s.decay * s.value[i]);
                 }));
}

}  // namespace
}  // namespace millrace
