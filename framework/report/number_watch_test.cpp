#include "report/number_watch.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "run/explain.h"
#include "testkit/messages.h"

namespace millrace::number_watch_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberWatch, TheFirstNumberThatIsNotFiniteEndsTheRun) {
  NumberWatch watch(NumberWatch::Setting{});
  watch.add(3, "loss", 1e300);
  EXPECT_FALSE(watch.in_trouble());
  EXPECT_FALSE(watch.trouble());
  watch.add(12, "gradient_norm", kInfinity);
  watch.add(11, "loss", kNan);  // reports come out of order
  ASSERT_TRUE(watch.in_trouble());
  EXPECT_MESSAGE(watch.trouble()->text());
  EXPECT_EQ(watch.steps(), 2U);
}

TEST(NumberWatch, ANumberMayComeWithoutItsValue) {
  NumberWatch watch(NumberWatch::Setting{});
  watch.not_finite(11, "a gradient");
  watch.add(12, "loss", kNan);
  EXPECT_MESSAGE(watch.trouble()->text());
}

TEST(NumberWatch, StepsThatUpdateNothingEndTheRunWhenThereAreTooManyInARow) {
  std::vector<std::string> warnings;
  NumberWatch watch({.skips = true, .most_in_a_row = 2, .warn = [&](std::string text) { warnings.push_back(std::move(text)); }});
  for (const std::uint64_t step : {1, 2, 5, 4, 7}) {
    watch.add(step, "loss", kNan);
    watch.add(step, "gradient_norm", kNan);  // the same step
  }
  EXPECT_FALSE(watch.in_trouble()) << "two in a row are allowed";
  EXPECT_EQ(watch.steps(), 5U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_MESSAGE(warnings[0]);
  watch.add(6, "loss", kNan);
  ASSERT_TRUE(watch.in_trouble()) << "steps 4, 5, 6 and 7";
  EXPECT_EQ(watch.trouble()->step, 6U);
}

TEST(NumberWatch, SaysHowManyStepsAtEachPowerOfTen) {
  std::vector<std::string> warnings;
  NumberWatch watch({.skips = true, .most_in_a_row = 1, .warn = [&](std::string text) { warnings.push_back(std::move(text)); }});
  for (std::uint64_t i = 0; i < 100; ++i) watch.add(2 * i, "loss", kNan);
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_MESSAGE(warnings[2]);
}

TEST(Spread, SaysHowFarFiniteValuesGoAndWhichAreNot) {
  const std::vector<float> values = {2, std::numeric_limits<float>::quiet_NaN(), -1, std::numeric_limits<float>::infinity()};
  const Spread spread(values);
  EXPECT_EQ(spread.wrong, 2U);
  EXPECT_EQ(spread.first_wrong, 1U);
  EXPECT_MESSAGE(spread.text());
  EXPECT_MESSAGE(Spread(std::span(values).subspan(2, 1)).text());
  EXPECT_MESSAGE(Spread(std::span(values).subspan(3)).text());
}

// Layers 0 and 1 read the input, 2 reads 0, 3 reads 1 and 2.
Network forked() {
  Network network;
  for (int i = 0; i < 4; ++i) {
    Layer layer;
    layer.name = std::string(1, static_cast<char>('a' + i));
    layer.parameters = {i};
    network.layers.push_back(layer);
    Parameter parameter;
    parameter.name = layer.name + ".weight";
    network.parameters.push_back(parameter);
  }
  network.layers[0].inputs = network.layers[1].inputs = {Network::kInput};
  network.layers[2].inputs = {0};
  network.layers[3].inputs = {1, 2};
  return network;
}

TEST(PartOf, HasWhatLeadsToItsLastLayerAndNothingElse) {
  const Network whole = forked();
  std::vector<int> parameters;
  const Network part = part_of(whole, 2, parameters);
  ASSERT_EQ(part.layers.size(), 2U);
  EXPECT_EQ(part.layers[1].name, "c");
  EXPECT_EQ(part.layers[1].inputs, (std::vector<LayerPort>{0}));
  EXPECT_EQ(part.layers[1].parameters, std::vector<int>{1});
  EXPECT_EQ(parameters, (std::vector<int>{0, 2}));
  EXPECT_EQ(part.parameters[1].name, "c.weight");
  parameters.clear();
  EXPECT_EQ(part_of(whole, 1, parameters).layers[0].inputs, (std::vector<LayerPort>{Network::kInput}));
  parameters.clear();
  EXPECT_EQ(part_of(whole, 3, parameters).layers.size(), 4U);
}

}  // namespace
}  // namespace millrace::number_watch_test
