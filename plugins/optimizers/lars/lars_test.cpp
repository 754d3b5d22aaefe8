#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

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

}  // namespace
}  // namespace millrace
