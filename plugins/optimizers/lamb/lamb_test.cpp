#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

Formula lamb_formula(double beta1, double beta2, double epsilon) {
  return [=](const FormulaStep& s) {
    std::vector<double>&m = s.states["momentum"], &v = s.states["variance"];
    std::vector<double> r(s.value.size());
    for (std::size_t i = 0; i < r.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * s.gradient[i];
      v[i] = beta2 * v[i] + (1 - beta2) * s.gradient[i] * s.gradient[i];
      const double mean = m[i] / (1 - std::pow(beta1, s.t)), square = v[i] / (1 - std::pow(beta2, s.t));
      r[i] = mean / (std::sqrt(square) + epsilon) + s.decay * s.value[i];
    }
    const double ratio = s.decay > 0 ? length_of(s.value) / length_of(r) : 1;
    for (std::size_t i = 0; i < r.size(); ++i) s.value[i] -= s.rate * ratio * r[i];
  };
}

TEST(Lamb, FollowsItsFormulaByParameter) {
  expect_follows("lamb", {}, lamb_formula(0.9, 0.999, 1e-6));
  expect_follows("lamb", table({{"beta1", Value(0.5)}, {"beta2", Value(0.75)}, {"epsilon", Value(0.01)}}),
                 lamb_formula(0.5, 0.75, 0.01));
}

TEST(Lamb, AParameterOfZerosTakesWholeSteps) {
  for (const char* backend : {"cpu", "simulated"}) {
    OptimizerTrial trial(backend, Precision::fp32, testkit::make_optimizer("lamb"));
    const int fc = trial.network().find_parameter("fc.weight");
    const std::size_t size = trial.replica().read(kValue, fc).size();
    trial.replica().write(kValue, fc, std::vector<float>(size));
    trial.step(0);
    std::vector<double> expected;
    for (const float gradient : OptimizerTrial::gradient(fc, size, 0)) {
      const auto g = static_cast<double>(gradient);
      expected.push_back(-OptimizerTrial::kRate * g / (std::abs(g) + 1e-6));
    }
    expect_near(trial.replica().read(kValue, fc), expected, backend);
  }
}

}  // namespace
}  // namespace millrace
