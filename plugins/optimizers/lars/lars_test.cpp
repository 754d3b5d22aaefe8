#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

Formula formula(double momentum, double trust) {
  return [=](const FormulaStep& s) {
    const double w = norm(s.value), g = norm(s.gradient);
    const double local = s.decay > 0 ? trust * w / (g + s.decay * w) : 1;
    std::vector<double> unkept(s.value.size());
    std::vector<double>& v = momentum == 0 ? unkept : s.states["momentum"];
    for (std::size_t i = 0; i < s.value.size(); ++i) {
      v[i] = momentum * v[i] + s.rate * local * (s.gradient[i] + s.decay * s.value[i]);
      s.value[i] -= v[i];
    }
  };
}

TEST(Lars, FollowsItsFormulaByParameter) {
  expect_follows("lars", {}, formula(0.9, 0.001));
  expect_follows("lars", table({{"momentum", Value(0.0)}, {"trust", Value(0.5)}}), formula(0, 0.5));
}

TEST(Lars, AParameterOfZerosIsUpdatedAsByPlainMomentum) {
  for (const char* backend : {"cpu", "simulated"}) {
    OptimizerTrial trial(backend, Precision::fp32, testkit::make_optimizer("lars"));
    const int fc = trial.network().find_parameter("fc.weight");
    const std::size_t size = trial.replica().read(kValue, fc).size();
    trial.replica().write(kValue, fc, std::vector<float>(size));
    trial.step(0);
    std::vector<double> expected;
    for (const float gradient : OptimizerTrial::gradient(fc, size, 0))
      expected.push_back(-OptimizerTrial::kRate * static_cast<double>(gradient));
    expect_near(trial.replica().read(kValue, fc), expected, backend);
  }
}

TEST(Lars, AMomentumThatNeverFadesIsAMistake) {
  EXPECT_THROW(testkit::make_optimizer("lars", table({{"momentum", Value(1.0)}})), Error);
}

TEST(Lars, ATrustOfZeroIsAMistake) { EXPECT_THROW(testkit::make_optimizer("lars", table({{"trust", Value(0.0)}})), Error); }

}  // namespace
}  // namespace millrace
