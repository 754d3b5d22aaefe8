// Shape inference and parameters of each layer type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "testkit/messages.h"
#include "toml/document.h"

namespace millrace {
namespace {

class Ops : public testing::Test {
 protected:
  Value table(const std::string& toml) {
    auto value = parse_toml(toml, "test.toml", errors_);
    EXPECT_TRUE(value) << errors_.text();
    return value.value_or(Value());
  }

  LayerPlan plan(const std::string& op, const std::string& toml, const std::vector<Shape>& inputs) {
    const LayerType* type = registry_.layers().find(op);
    EXPECT_NE(type, nullptr) << op;
    LayerPlan result = type->plan(table(toml), inputs, errors_);
    EXPECT_TRUE(errors_.empty()) << errors_.text();
    return result;
  }

  Shape output(const std::string& op, const std::string& toml, const Shape& input) { return plan(op, toml, {input}).output; }

  // The message about an impossible shape.
  std::string refusal(const std::string& op, const std::string& toml, const std::vector<Shape>& inputs) {
    try {
      plan(op, toml, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    ADD_FAILURE() << op << " was not refused";
    return "";
  }

  // The message about a wrong value.
  std::string mistake(const std::string& op, const std::string& toml) {
    Diagnostics errors;
    registry_.layers().find(op)->plan(table(toml), {Shape{3, 32, 32}}, errors);
    EXPECT_EQ(errors.size(), 1U) << errors.text();
    return errors.text();
  }

  Registry registry_;
  Diagnostics errors_;
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

TEST_F(Ops, ConvFollowsKernelStridePaddingAndDilation) {
  EXPECT_EQ(output("conv", "out = 8\nkernel = 3", {3, 32, 32}), (Shape{8, 30, 30}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 3\npadding = 'same'", {3, 32, 32}), (Shape{8, 32, 32}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 3\npadding = 'valid'", {3, 32, 32}), (Shape{8, 30, 30}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = [3, 5]\npadding = [1, 2]", {3, 32, 20}), (Shape{8, 32, 20}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 2\npadding = [1, 0, 0, 1]", {3, 6, 6}), (Shape{8, 6, 6}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 7\nstride = 2\npadding = 3", {3, 224, 224}), (Shape{8, 112, 112}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 3\ndilation = 2", {3, 32, 32}), (Shape{8, 28, 28}));
  EXPECT_EQ(output("conv", "out = 8\nkernel = 3\nstride = 2\npadding = 'same'", {3, 33, 32}), (Shape{8, 17, 16}));
}

TEST_F(Ops, ConvResolvesSamePaddingWithTheExtraPixelAtTheEnd) {
  const auto attributes = plan("conv", "out = 8\nkernel = [2, 3]\npadding = 'same'", {{3, 8, 8}}).attributes;
  const auto& padding = static_cast<const ConvAttributes*>(attributes.get())->padding;
  EXPECT_EQ(padding.top, 0);
  EXPECT_EQ(padding.bottom, 1);
  EXPECT_EQ(padding.left, 1);
  EXPECT_EQ(padding.right, 1);
}

TEST_F(Ops, ConvCountsMultiplyAddsAndDeclaresWeights) {
  const LayerPlan result =
      plan("conv", "out = 32\nkernel = [3, 5]\ngroups = 4\nrate_factor = 2\nbias_decay_factor = 0", {{16, 10, 10}});
  ASSERT_EQ(result.parameters.size(), 2U);
  EXPECT_EQ(result.parameters[0].name, "weight");
  EXPECT_EQ(result.parameters[0].shape, (Shape{32, 4, 3, 5}));
  EXPECT_EQ(result.parameters[0].initialiser.rule, "fan_in_uniform");
  EXPECT_EQ(result.parameters[0].rate_factor, 2);
  EXPECT_EQ(result.parameters[0].decay_factor, 1);
  EXPECT_EQ(result.parameters[1].name, "bias");
  EXPECT_EQ(result.parameters[1].shape, Shape{32});
  EXPECT_EQ(result.parameters[1].initialiser.rule, "uniform");
  EXPECT_DOUBLE_EQ(result.parameters[1].initialiser.value, 1 / std::sqrt(60.0));
  EXPECT_EQ(result.parameters[1].decay_factor, 0);
  EXPECT_EQ(result.multiply_adds, 32U * 8 * 6 * 60);
}

TEST_F(Ops, ConvSaysWhatWouldFit) {
  expect_contains(refusal("conv", "out = 8\nkernel = 7", {{64, 4, 5}}), "kernel of 7 x 7 does not fit into its input 64 x 4 x 5");
  expect_contains(refusal("conv", "out = 8\nkernel = 7", {{64, 4, 5}}), "at most 4 x 5");
  expect_contains(refusal("conv", "out = 8\nkernel = 3\ndilation = 3", {{64, 4, 4}}), "dilated to 7 x 7");
  expect_contains(refusal("conv", "out = 8\nkernel = 3", {{256}}), "is 256, a vector");
  expect_contains(refusal("conv", "out = 8\nkernel = 3\ngroups = 3", {{64, 8, 8}}), "must divide both the 64 channels");
  expect_contains(refusal("conv", "out = 8\nkernel = 3\npadding = 3", {{64, 8, 8}}), "must be smaller than the kernel");
}

TEST_F(Ops, ConvReportsWrongValuesWithTheirPositions) {
  EXPECT_MESSAGE(mistake("conv", "out = 8\nkernel = 3\npadding = 'smae'"));
  expect_contains(mistake("conv", "out = 8\nkernel = 3\npadding = [1, 2, 3]"), "test.toml:3:11");
  expect_contains(mistake("conv", "out = 8\nkernel = 3\npadding = -1"), "between 0 and");
  expect_contains(mistake("conv", "kernel = 3"), "needs 'out'");
  expect_contains(mistake("conv", "out = 0\nkernel = 3"), "'out' must be an integer");
  expect_contains(mistake("conv", "out = 8\nkernel = 3\ninitialiser = 'he_norml'"), "he_normal");
  expect_contains(mistake("conv", "out = 8\nkernel = 3\ninitialiser = { rule = 'normal', vlaue = 1 }"), "nearest is 'value'");
  expect_contains(mistake("conv", "out = 8\nkernel = 3\nbias_initialiser = 'he_normal'"), "a vector takes constant");
}

// The extents of torch.nn.ConvTranspose2d.
TEST_F(Ops, TransposedConvMakesMapsGrow) {
  const auto made = [this](const std::string& toml, const Shape& input) { return output("transposed_conv", toml, input); };
  EXPECT_EQ(made("out = 8\nkernel = 3", {16, 32, 30}), (Shape{8, 34, 32}));
  EXPECT_EQ(made("out = 8\nkernel = 2\nstride = 2", {16, 32, 30}), (Shape{8, 64, 60}));
  EXPECT_EQ(made("out = 8\nkernel = 3\nstride = 2\npadding = 1\noutput_padding = 1", {16, 7, 7}), (Shape{8, 14, 14}));
  EXPECT_EQ(made("out = 8\nkernel = [3, 4]\nstride = [2, 3]\noutput_padding = [0, 2]", {16, 4, 3}), (Shape{8, 9, 12}));
  EXPECT_EQ(made("out = 8\nkernel = 3\ndilation = 2\npadding = [1, 0, 0, 2]", {16, 6, 6}), (Shape{8, 9, 8}));
  EXPECT_EQ(made("out = 8\nkernel = 3\nstride = 2\npadding = 'same'", {16, 7, 5}), (Shape{8, 14, 10}));
  EXPECT_EQ(made("out = 8\nkernel = 1\nstride = 3\npadding = 'same'", {16, 7, 5}), (Shape{8, 21, 15}));
}

TEST_F(Ops, TransposedConvResolvesSamePaddingWithTheExtraPixelAtTheEnd) {
  const auto attributes =
      plan("transposed_conv", "out = 8\nkernel = [3, 5]\nstride = 2\npadding = 'same'", {{3, 8, 8}}).attributes;
  const auto& conv = *static_cast<const ConvAttributes*>(attributes.get());
  EXPECT_TRUE(conv.transposed);
  EXPECT_EQ(conv.padding.top, 0);
  EXPECT_EQ(conv.padding.bottom, 1);
  EXPECT_EQ(conv.padding.left, 1);
  EXPECT_EQ(conv.padding.right, 2);
}

// torch.nn.ConvTranspose2d(16, 32, (3, 5), groups=4): a fan in of 8 * 3 * 5, by the second extent of its weights.
TEST_F(Ops, TransposedConvCountsMultiplyAddsAndDeclaresWeightsAsPyTorchDoes) {
  const LayerPlan result = plan("transposed_conv", "out = 32\nkernel = [3, 5]\nstride = 2\ngroups = 4", {{16, 10, 10}});
  ASSERT_EQ(result.parameters.size(), 2U);
  EXPECT_EQ(result.parameters[0].name, "weight");
  EXPECT_EQ(result.parameters[0].shape, (Shape{16, 8, 3, 5}));
  EXPECT_EQ(result.parameters[0].initialiser.rule, "fan_in_uniform");
  EXPECT_EQ(result.parameters[1].name, "bias");
  EXPECT_EQ(result.parameters[1].shape, Shape{32});
  EXPECT_DOUBLE_EQ(result.parameters[1].initialiser.value, 1 / std::sqrt(120.0));
  EXPECT_EQ(result.multiply_adds, 16U * 10 * 10 * 120);
  EXPECT_EQ(plan("transposed_conv", "out = 32\nkernel = 3\nbias = false", {{16, 10, 10}}).parameters.size(), 1U);
}

TEST_F(Ops, TransposedConvSaysWhatIsWrong) {
  const auto refused = [this](const std::string& toml, const Shape& input) {
    return refusal("transposed_conv", fmt::format("out = 8\nkernel = 3\n{}", toml), {input});
  };
  EXPECT_MESSAGE(refused("stride = 2\noutput_padding = [1, 2]", {16, 4, 4}));
  EXPECT_EQ(refused("stride = 2\npadding = 'same'\noutput_padding = 1", {16, 4, 4}),
            "padding = \"same\" takes no output_padding: the output is the input times the stride");
  EXPECT_MESSAGE(refused("padding = [2, 2, 1, 2]", {16, 1, 1}));
  expect_contains(refused("padding = 3", {16, 8, 8}), "must be smaller than the kernel, 3 x 3");
  expect_contains(refused("groups = 3", {16, 8, 8}), "must divide both the 16 channels of its input and the 8 filters");
  expect_contains(refused("", {256}), "is 256, a vector");
  expect_contains(mistake("transposed_conv", "out = 8\nkernel = 3\npadding = -1"), "between 0 and");
  expect_contains(mistake("transposed_conv", "out = 8\nkernel = 3\noutput_padding = -1"), "output_padding");
  expect_contains(mistake("transposed_conv", "out = 8\nkernel = 3\ninitialiser = 'whiten'"), "weights of a conv");
  expect_contains(mistake("transposed_conv", "out = 8\nkernel = 3\ninitialiser = 'he_norml'"), "he_normal");
}

TEST_F(Ops, LinearFlattensItsInput) {
  const LayerPlan result = plan("linear", "out = 10\nbias = false", {{128, 2, 2}});
  EXPECT_EQ(result.output, Shape{10});
  ASSERT_EQ(result.parameters.size(), 1U);
  EXPECT_EQ(result.parameters[0].shape, (Shape{10, 512}));
  EXPECT_EQ(result.multiply_adds, 5120U);
}

TEST_F(Ops, WhiteningFillsTwoFiltersForEachValueOfAPatch) {
  EXPECT_EQ(plan("conv", "out = 24\nkernel = 2\ninitialiser = 'whiten'", {{3, 8, 8}}).parameters[0].initialiser.rule, "whiten");
  expect_contains(refusal("conv", "out = 16\nkernel = 2\ninitialiser = 'whiten'", {{3, 8, 8}}), "makes 24 filters");
  expect_contains(mistake("linear", "out = 24\ninitialiser = 'whiten'"), "weights of a conv");
}

TEST_F(Ops, BatchNormHasStatisticsThatAreNotTrained) {
  const LayerPlan result = plan("batch_norm", "", {{16, 4, 4}});
  ASSERT_EQ(result.parameters.size(), 4U);
  const char* const names[] = {"weight", "bias", "running_mean", "running_var"};
  const double values[] = {1, 0, 0, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.parameters[i].name, names[i]);
    EXPECT_EQ(result.parameters[i].shape, Shape{16});
    EXPECT_EQ(result.parameters[i].initialiser.rule, "constant");
    EXPECT_EQ(result.parameters[i].initialiser.value, values[i]);
    EXPECT_EQ(result.parameters[i].statistic, i >= 2);
    EXPECT_EQ(result.parameters[i].trainable, i < 2);
  }
  EXPECT_EQ(plan("batch_norm", "scale = false", {{16, 4, 4}}).parameters.size(), 3U);
}

TEST_F(Ops, PoolsCountWindowsAsPyTorchDoes) {
  EXPECT_EQ(output("max_pool", "kernel = 2", {64, 31, 31}), (Shape{64, 15, 15}));
  EXPECT_EQ(output("max_pool", "kernel = 3\nstride = 2\npadding = 1", {64, 112, 112}), (Shape{64, 56, 56}));
  EXPECT_EQ(output("max_pool", "kernel = 2\nceil_mode = true", {64, 31, 31}), (Shape{64, 16, 16}));
  EXPECT_EQ(output("max_pool", "kernel = 3\nstride = 2\nceil_mode = true", {64, 13, 13}), (Shape{64, 6, 6}));
  // A window that would begin in the padding after the input is left out: torch.nn.MaxPool2d(2, 2, 1, ceil_mode=True) of 5 -> 3.
  EXPECT_EQ(output("max_pool", "kernel = 2\npadding = 1\nceil_mode = true", {1, 5, 5}), (Shape{1, 3, 3}));
  EXPECT_EQ(output("average_pool", "kernel = 8", {128, 8, 8}), (Shape{128, 1, 1}));
  EXPECT_EQ(output("average_pool", "", {128, 8, 6}), (Shape{128, 1, 1}));
  EXPECT_EQ(output("global_average_pool", "", {128, 8, 8}), Shape{128});
  expect_contains(refusal("max_pool", "kernel = 9", {{64, 8, 8}}), "does not fit");
  expect_contains(refusal("global_average_pool", "", {{10}}), "a vector");
  expect_contains(refusal("average_pool", "", {{10}}), "a vector");
  expect_contains(mistake("max_pool", "stride = 2"), "needs 'kernel'");
}

TEST_F(Ops, CeilModeBecomesPaddingBehindTheInput) {
  const auto attributes = plan("max_pool", "kernel = 2\nceil_mode = true", {{1, 5, 4}}).attributes;
  const auto& padding = static_cast<const PoolAttributes*>(attributes.get())->padding;
  EXPECT_EQ(padding.bottom, 1);
  EXPECT_EQ(padding.right, 0);
}

TEST_F(Ops, AddAndConcatCheckTheirInputs) {
  EXPECT_EQ(plan("add", "", {{8, 4, 4}, {8, 4, 4}}).output, (Shape{8, 4, 4}));
  EXPECT_EQ(plan("concat", "", {{8, 4, 4}, {3, 4, 4}, {1, 4, 4}}).output, (Shape{12, 4, 4}));
  EXPECT_EQ(plan("concat", "", {{8}, {3}}).output, Shape{11});
  expect_contains(refusal("add", "", {{8, 4, 4}, {16, 4, 4}}), "8 x 4 x 4 and 16 x 4 x 4");
  expect_contains(refusal("concat", "", {{8, 4, 4}, {8, 2, 4}}), "height and width");
}

TEST_F(Ops, TheOthersKeepOrFlattenTheShape) {
  for (const char* op : {"relu", "gelu", "dropout", "scale", "lrn", "batch_norm"}) {
    EXPECT_EQ(output(op, "", {8, 4, 4}), (Shape{8, 4, 4})) << op;
  }
  EXPECT_EQ(output("flatten", "", {8, 4, 4}), Shape{128});
  EXPECT_EQ(output("stochastic_depth", "probability = 0.2", {8, 4, 4}), (Shape{8, 4, 4}));
  expect_contains(mistake("dropout", "probability = 1"), "between 0 and");
}

TEST_F(Ops, DropoutSaysWhatIsDroppedTogether) {
  const auto drops = [&](const std::string& op, const std::string& toml) {
    const LayerPlan made = plan(op, toml, {{8, 4, 4}});
    return *static_cast<const DropoutAttributes*>(made.attributes.get());
  };
  const DropoutAttributes values = drops("dropout", "");
  EXPECT_TRUE(values.by_channel && values.by_pixel);
  const DropoutAttributes channels = drops("dropout", "drops = 'channels'");
  EXPECT_TRUE(channels.by_channel && !channels.by_pixel);
  for (const DropoutAttributes& samples :
       {drops("dropout", "drops = 'samples'\nprobability = 0.2"), drops("stochastic_depth", "probability = 0.2")}) {
    EXPECT_FALSE(samples.by_channel || samples.by_pixel);
    EXPECT_EQ(samples.probability, 0.2);
  }
  expect_contains(mistake("dropout", "drops = 'rows'"), "channels");
  expect_contains(mistake("stochastic_depth", ""), "needs 'probability'");
}

TEST_F(Ops, LrnRefusesAnEvenNumberOfChannels) {
  EXPECT_MESSAGE(refusal("lrn", "size = 4", {{8, 4, 4}}));
  EXPECT_EQ(output("lrn", "size = 1", {8, 4, 4}), (Shape{8, 4, 4}));
}

// Constant maps, including 0, are valid input.
TEST_F(Ops, NormalisationsDivideByNothingThatIsZero) {
  EXPECT_MESSAGE(refusal("batch_norm", "epsilon = 0", {{8, 4, 4}}));
  EXPECT_MESSAGE(refusal("batch_norm", "epsilon = 1e-60", {{8, 4, 4}}));
  EXPECT_MESSAGE(refusal("lrn", "k = 0", {{8, 4, 4}}));
  EXPECT_MESSAGE(refusal("lrn", "k = 1e-30", {{8, 4, 4}}));
  for (const char* key : {"k", "alpha", "beta"}) {
    expect_contains(mistake("lrn", fmt::format("{} = -1", key)), "must be a number of at least 0, found -1");
  }
  EXPECT_EQ(output("lrn", "k = 0.01", {8, 4, 4}), (Shape{8, 4, 4}));
}

TEST_F(Ops, WithoutInputsTheTableIsReadAllTheSame) {
  Diagnostics errors;
  registry_.layers().find("conv")->plan(table("out = 8\nkernel = 3\nstirde = 2"), {}, errors);
  expect_contains(errors.text(), "nearest is 'stride'");
}

TEST_F(Ops, EveryTypeDescribesItselfAndItsParameters) {
  EXPECT_EQ(registry_.layers().size(), 17U);
  for (const auto& [name, type] : registry_.layers()) {
    EXPECT_FALSE(type.text.empty()) << name;
    for (const ParamInfo& info : type.params) EXPECT_FALSE(info.text.empty()) << name << "." << info.name;
  }
}

}  // namespace
}  // namespace millrace
