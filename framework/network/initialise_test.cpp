#include <gtest/gtest.h>

#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/error.h"

namespace millrace {
namespace {

Parameter parameter(const std::string& rule, const Shape& shape, double value = 0) {
  Parameter result;
  result.name = "conv1.weight";
  result.shape = shape;
  result.initialiser = {rule, value};
  return result;
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const std::vector<float>& values) {
  Moments result;
  double squares = 0;
  for (const float value : values) {
    result.mean += static_cast<double>(value) / static_cast<double>(values.size());
    squares += static_cast<double>(value) * static_cast<double>(value) / static_cast<double>(values.size());
    result.largest = std::max(result.largest, std::abs(static_cast<double>(value)));
  }
  result.deviation = std::sqrt(squares - result.mean * result.mean);
  return result;
}

const Shape kConv = {128, 64, 3, 3};  // fan in 576, fan out 1152

TEST(InitialValues, HaveTheDeviationOfTheirRule) {
  const std::vector<std::pair<Parameter, double>> expected = {
      {parameter("he_normal", kConv), std::sqrt(2.0 / 576)},
      {parameter("he_uniform", kConv), std::sqrt(2.0 / 576)},
      {parameter("he_normal_fan_out", kConv), std::sqrt(2.0 / 1152)},
      {parameter("glorot_normal", kConv), std::sqrt(2.0 / 1728)},
      {parameter("glorot_uniform", kConv), std::sqrt(2.0 / 1728)},
      {parameter("fan_in_uniform", kConv), std::sqrt(1.0 / 576 / 3)},
      {parameter("normal", kConv, 0.01), 0.01},
      {parameter("uniform", {100'000}, 0.3), 0.3 / std::sqrt(3)},
  };
  for (const auto& [what, deviation] : expected) {
    const Moments found = moments(initial_values(what, 1));
    EXPECT_NEAR(found.deviation, deviation, 0.02 * deviation) << what.initialiser.rule;
    EXPECT_NEAR(found.mean, 0, 0.02 * deviation) << what.initialiser.rule;
    const bool bounded = what.initialiser.rule.find("uniform") != std::string::npos;
    EXPECT_EQ(found.largest <= deviation * std::sqrt(3) * 1.000001, bounded) << what.initialiser.rule;
  }
}

TEST(InitialValues, AreAFunctionOfSeedAndName) {
  const Parameter one = parameter("he_normal", kConv);
  Parameter other = one;
  other.name = "conv2.weight";
  EXPECT_EQ(initial_values(one, 1), initial_values(one, 1));
  EXPECT_NE(initial_values(one, 1), initial_values(one, 2));
  EXPECT_NE(initial_values(one, 1), initial_values(other, 1));
}

TEST(InitialValues, ConstantsAreConstant) {
  EXPECT_EQ(initial_values(parameter("constant", {3}, 0.5), 1), (std::vector<float>{0.5F, 0.5F, 0.5F}));
}

TEST(InitialValues, DiracPassesTheFirstChannelsOnAndLeavesTheOthers) {
  const Shape shape = {4, 3, 3, 3};
  const std::vector<float> values = initial_values(parameter("dirac", shape), 5);
  const std::vector<float> plain = initial_values(parameter("fan_in_uniform", shape), 5);
  for (std::size_t filter = 0; filter < 4; ++filter) {
    for (std::size_t k = 0; k < 27; ++k) {
      const float identity = k == filter * 9 + 4 ? 1.0F : 0.0F;
      EXPECT_EQ(values[filter * 27 + k], filter < 3 ? identity : plain[filter * 27 + k]);
    }
  }
}

TEST(InitialValues, DiracStopsAtTheLastFilter) {
  const std::vector<float> values = initial_values(parameter("dirac", {2, 3, 1, 1}), 5);
  EXPECT_EQ(values, (std::vector<float>{1, 0, 0, 0, 1, 0}));
}

TEST(InitialValues, WhitenIsNotMadeHere) { EXPECT_THROW(initial_values(parameter("whiten", {24, 3, 2, 2}), 1), Error); }

}  // namespace
}  // namespace millrace
