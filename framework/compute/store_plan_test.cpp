#include "millrace/backend/store_plan.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace {
namespace {

class Keeping final : public Optimizer {
 public:
  explicit Keeping(std::vector<OptimizerState> states)
      : Optimizer("keeping", OptimizerScope::element, std::move(states), false) {}
  void update(const UpdateArguments&, const UpdateTime&, const Submit&) const override {}
  void directions(const UpdateArguments&, const UpdateTime&, const Submit&) const override {}
  NewtonSchulz newton_schulz() const override { return {}; }
};

// A frozen matrix, a trained vector with a statistic, and a trained matrix, which is in the first bucket.
enum { kFrozen, kVector, kStatistic, kMatrix };

class StorePlanTest : public testing::Test {
 protected:
  StorePlanTest() {
    const std::vector<std::pair<int, Shape>> shapes = {{0, {4, 3}}, {1, {2}}, {1, {2}}, {2, {5, 40}}};
    network_.layers.resize(3);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      network_.layers[static_cast<std::size_t>(shapes[i].first)].parameters.push_back(static_cast<int>(i));
      network_.parameters.emplace_back().shape = shapes[i].second;
    }
    network_.layers[1].inputs = {LayerPort(0)};
    network_.layers[2].inputs = {LayerPort(1)};
    network_.parameters[kFrozen].trainable = false;
    network_.parameters[kStatistic].trainable = false;
    network_.parameters[kStatistic].statistic = true;
    options_.train_batch = 8;
    options_.request.copies = {"average"};
    options_.request.update.optimizers = {
        std::make_shared<Keeping>(std::vector<OptimizerState>{{"first", 0.5F}, {"rows", 0, StateShape::rows}}),
        std::make_shared<Keeping>(std::vector<OptimizerState>{{"first"}})};
    options_.request.update.optimizer_of = {0, 1, 1, 0};
    std::vector<std::size_t> elements;
    std::vector<std::int64_t> widths;
    for (const Parameter& parameter : network_.parameters) {
      elements.push_back(static_cast<std::size_t>(parameter.shape.elements()));
      widths.push_back(matrix_of(parameter).columns);
    }
    plan_.plan(elements, widths, kAlignment);
  }

  static constexpr std::size_t kAlignment = 16;
  Network network_;
  CompileOptions options_;
  StorePlan plan_{network_, options_};
};

TEST_F(StorePlanTest, GradientsCoverTheTrainedAndCopiesTheStatisticsToo) {
  const ParameterPlan& parameters = plan_.parameters;
  EXPECT_EQ(parameters.gradients(), 208U + 16);
  EXPECT_EQ(parameters.blended(), parameters.gradients() + 16);
  for (const int trained : {kVector, kMatrix}) EXPECT_LT(parameters.offset(trained), parameters.gradients());
  EXPECT_EQ(parameters.offset(kStatistic), parameters.gradients());
  EXPECT_EQ(parameters.offset(kFrozen), parameters.blended());
}

TEST_F(StorePlanTest, AnUpdateTakesParametersOfOneBucketAndOptimizerTogether) {
  std::size_t ranges = 0, elements = 0;
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      ++ranges;
      elements += range.elements;
      for (const int parameter : range.parameters) EXPECT_EQ(&plan_.updates.optimizer_of(parameter), range.optimizer);
    }
  }
  EXPECT_EQ(ranges, 2U);
  EXPECT_EQ(elements, plan_.parameters.gradients());
  EXPECT_TRUE(plan_.updates.needs_norms()) << "one of them keeps rows";
}

TEST_F(StorePlanTest, AStateIsKeptForThoseWhoseOptimizerHasIt) {
  const StatePlan& states = plan_.states;
  EXPECT_EQ(states.shape("first", kVector), (Shape{2}));
  EXPECT_EQ(states.shape("rows", kMatrix), (Shape{5}));
  EXPECT_EQ(states.shape("rows", kVector), std::nullopt);
  for (const auto* state : {"first", "gradient", "average"}) EXPECT_EQ(states.shape(state, kFrozen), std::nullopt) << state;
  EXPECT_EQ(states.shape("average", kStatistic), (Shape{2}));
  EXPECT_THROW(states.find("rows", kVector), Error);
  const StatePlan::State& first = states.all()[static_cast<std::size_t>(states.find("first", kMatrix))];
  ASSERT_EQ(first.initial.size(), 1U) << "of one optimizer alone";
  EXPECT_EQ(first.initial[0].elements, 208U);
  EXPECT_EQ(first.initial[0].begin, states.place(states.find("first", kMatrix), kMatrix));
}

TEST_F(StorePlanTest, ACopyIsNamedOnceItHasBegun) {
  const auto has = [&](const std::string& name) {
    const std::vector<std::string> names = plan_.states.names();
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has("first"));
  EXPECT_FALSE(has("average"));
  plan_.states.begin(plan_.states.find_copy("average"));
  EXPECT_TRUE(has("average"));
  EXPECT_THROW(plan_.states.find_copy("slow"), Error);
}

}  // namespace
}  // namespace millrace
