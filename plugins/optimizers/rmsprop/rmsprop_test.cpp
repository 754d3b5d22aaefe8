#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

TEST(Rmsprop, FollowsItsFormulaWithEachOfItsStates) {
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.8}) {
      expect_follows(
          "rmsprop",
          table({{"alpha", Value(0.75)}, {"epsilon", Value(0.01)}, {"momentum", Value(momentum)}, {"centered", Value(centered)}}),
          by_element([=](const FormulaStep& s, std::size_t i) {
            const double g = s.gradient[i] + s.decay * s.value[i];
            double& square = s.states["variance"][i];
            double unkept = 0;
            double& mean = centered ? s.states["mean"][i] : unkept;
            square = 0.75 * square + 0.25 * g * g;
            if (centered) mean = 0.75 * mean + 0.25 * g;
            const double step = g / (std::sqrt(square - mean * mean) + 0.01);
            double& buffer = momentum != 0 ? s.states["momentum"][i] : unkept;
            buffer = momentum == 0 ? step : momentum * buffer + step;
            s.value[i] -= s.rate * buffer;
          }));
    }
  }
}

TEST(Rmsprop, KeepsWhatItsParametersAskFor) {
  const auto names = [](const Value& parameters) {
    std::vector<std::string> kept;
    const auto optimizer = testkit::make_optimizer("rmsprop", parameters);
    for (const OptimizerState& state : optimizer->states()) kept.push_back(state.name);
    return kept;
  };
  EXPECT_EQ(names({}), (std::vector<std::string>{"variance"}));
  EXPECT_EQ(names(table({{"momentum", Value(0.9)}})), (std::vector<std::string>{"variance", "momentum"}));
  EXPECT_EQ(names(table({{"centered", Value(true)}})), (std::vector<std::string>{"variance", "mean"}));
}

TEST(Rmsprop, EpsilonOfZeroIsAMistake) {
  EXPECT_THROW(testkit::make_optimizer("rmsprop", table({{"epsilon", Value(0.0)}})), Error);
}

TEST(Rmsprop, AMeanOrAMomentumThatNeverFadesIsAMistake) {
  EXPECT_THROW(testkit::make_optimizer("rmsprop", table({{"alpha", Value(1.0)}})), Error);
  EXPECT_THROW(testkit::make_optimizer("rmsprop", table({{"momentum", Value(1.0)}})), Error);
}

}  // namespace
}  // namespace millrace
