#include "testkit/operator_cases.h"

#include <fmt/format.h>

#include <string_view>

namespace millrace::testkit {
namespace {

constexpr ImageShape kSmall{6, 7, 3}, kWide{6, 5, 20}, kLarge{8, 9, 20};
constexpr std::string_view kInput = "@input";
#define FIRST R"({ name = "first", op = "conv", out = 20, kernel = 3, padding = 1 },)"

const OperatorCase kCases[] = {
    {"Linear", kSmall, ""},
    {"LinearWithoutBias", kSmall, "", R"({ op = "linear", out = 5, bias = false })"},
    {"LinearAfterFlatten", kSmall, FIRST R"({ op = "flatten" }, { op = "linear", out = 9 }, { op = "gelu" },)"},
    {"FlattenBatchNorm", kSmall, FIRST R"({ op = "flatten" }, { op = "batch_norm" }, { op = "relu" },)"},
    {"FlattenScale", kSmall, FIRST R"({ op = "flatten" }, { op = "scale", factor = 30 },)"},
    {"FlattenConcat", kSmall,
     R"({ name = "a", op = "conv", out = 5, kernel = 3 }, { op = "relu" }, { name = "u", op = "flatten" },
        { name = "v", op = "linear", out = 11, from = "@input" }, { op = "concat", from = ["u", "v", "u"] },)"},
    {"FlattenAdd", kSmall,
     R"({ name = "a", op = "conv", out = 5, kernel = 3 }, { name = "u", op = "flatten" },
        { name = "v", op = "linear", out = 100 }, { op = "add", from = ["v", "u"] }, { op = "gelu" },)"},
    {"LinearRelu", kSmall, R"({ op = "linear", out = 30 }, { op = "relu" },)"},
    {"Conv", kWide, R"({ op = "conv", out = 17, kernel = 3, padding = "same" },)"},
    {"ConvOnImage", kSmall, R"({ op = "conv", out = 24, kernel = 2, padding = "valid" },)"},
    {"ConvStrideAndPadding", kWide, FIRST R"({ op = "conv", out = 32, kernel = [3, 2], stride = 2, padding = [1, 0, 2, 1] },)"},
    {"ConvOfManyChannels", kLarge,
     R"({ op = "conv", out = 32, kernel = 3, padding = 1, bias = false }, { op = "batch_norm" }, { op = "relu" },
        { name = "a", op = "conv", out = 48, kernel = 3, padding = 1 }, { op = "relu" },
        { name = "b", op = "conv", out = 32, kernel = 3, padding = [2, 1, 2, 1] }, { op = "gelu" },
        { name = "c", op = "conv", out = 32, kernel = 3, padding = 1, bias = false }, { op = "batch_norm" }, { op = "gelu" },)"},
    {"ConvOfManyChannelsBeside", kLarge,
     R"({ name = "a", op = "conv", out = 32, kernel = 3, padding = 1 },
        { name = "b", op = "conv", out = 32, kernel = 3, padding = 1, trainable = false }, { name = "r", op = "relu" },
        { name = "d", op = "add", from = ["r", "a"] },)"},
    {"ConvOfNarrowMaps", kWide,
     FIRST
     R"({ op = "conv", out = 64, kernel = 1 }, { name = "a", op = "conv", out = 64, kernel = 3, padding = 1 }, { op = "relu" },
        { name = "b", op = "conv", out = 80, kernel = [3, 2], stride = 2, padding = [1, 0, 2, 1] }, { op = "gelu" },
        { name = "c", op = "conv", out = 64, kernel = 2, trainable = false, bias = false }, { op = "batch_norm" }, { op = "relu" },)"},
    {"ConvOfNarrowMapsBeside", kWide,
     FIRST R"({ name = "in", op = "conv", out = 64, kernel = 1 }, { name = "a", op = "conv", out = 64, kernel = 3, padding = 1 },
        { name = "b", op = "conv", out = 64, kernel = 5, padding = 2, bias = false, from = "in" },
        { name = "d", op = "add", from = ["b", "in", "a"] },)"},
    {"ConvDilated", kWide, FIRST R"({ op = "conv", out = 16, kernel = 3, dilation = 2, padding = 2, bias = false },)"},
    {"ConvDilatedFarOverTheEdge", kWide,
     FIRST R"({ name = "far", op = "conv", out = 16, kernel = 3, dilation = 24, padding = 24 }, { op = "relu" },
        { name = "some", op = "conv", out = 20, kernel = 3, dilation = [2, 36], padding = [2, 36, 2, 36] },
        { name = "none", op = "conv", out = 20, kernel = 3, dilation = 36, padding = 36, bias = false, trainable = false },
        { op = "gelu" },)"},
    {"ConvDilatedFarBeside", kLarge, FIRST R"({ name = "b1", op = "batch_norm" }, { name = "r1", op = "relu" },
        { name = "c2", op = "conv", out = 16, kernel = 3, dilation = 12, padding = 12, bias = false, from = "r1" },
        { name = "b2", op = "batch_norm" }, { name = "r2", op = "relu" },
        { name = "c3", op = "conv", out = 16, kernel = 3, dilation = 24, padding = 24, bias = false, from = "r1" },
        { name = "b3", op = "batch_norm" }, { name = "r3", op = "relu" },
        { name = "c4", op = "conv", out = 16, kernel = 3, dilation = 36, padding = 36, bias = false, from = "r1" },
        { name = "b4", op = "batch_norm" }, { name = "r4", op = "relu" },
        { name = "join", op = "concat", from = ["r1", "r2", "r3", "r4"] }, { op = "conv", out = 16, kernel = 1 },)"},
    {"ConvPointwise", kWide, FIRST R"({ op = "conv", out = 40, kernel = 1, stride = 2, bias = false },)"},
    {"ConvGroups", kWide, FIRST R"({ op = "conv", out = 40, kernel = 3, groups = 4, padding = 1 },)"},
    {"ConvDepthwise", kWide, FIRST R"({ op = "conv", out = 20, kernel = 3, groups = 20, padding = 1 },)"},
    {"ConvDepthwiseOfSeven", kWide, FIRST R"({ op = "conv", out = 20, kernel = 7, groups = 20, padding = 3 },)"},
    {"ConvDepthwiseOfFiveRelu", kWide,
     FIRST R"({ op = "conv", out = 20, kernel = 5, stride = 2, groups = 20, padding = 2, bias = false }, { op = "relu" },)"},
    {"ConvDepthwiseOfFiveGelu", kWide,
     FIRST R"({ op = "conv", out = 20, kernel = [5, 7], groups = 20, padding = [3, 1, 2, 2] }, { op = "gelu" },)"},
    {"ConvDepthwiseBeside", kWide,
     FIRST R"({ name = "d", op = "conv", out = 20, kernel = 5, groups = 20, padding = 2, trainable = false },
        { op = "add", from = ["d", "first"] },)"},
    {"ConvRelu", kWide, FIRST R"({ op = "relu" }, { op = "conv", out = 33, kernel = 3, padding = 1 }, { op = "relu" },)"},
    {"ConvGelu", kWide, FIRST R"({ op = "gelu" }, { op = "conv", out = 33, kernel = 3, padding = 1 }, { op = "gelu" },)"},
    {"TransposedConv", kWide, FIRST R"({ op = "transposed_conv", out = 17, kernel = 2, stride = 2 },)"},
    {"TransposedConvOnImage", kSmall, R"({ op = "transposed_conv", out = 24, kernel = 3 },)"},
    {"TransposedConvPadded", kWide,
     FIRST
     R"({ op = "transposed_conv", out = 9, kernel = [3, 4], stride = [2, 3], padding = [1, 0, 2, 1], output_padding = 1, bias = false },)"},
    {"TransposedConvGroups", kWide,
     FIRST R"({ op = "transposed_conv", out = 40, kernel = 3, dilation = 2, groups = 4, padding = 2 },)"},
    {"TransposedConvDepthwise", kWide,
     FIRST R"({ op = "transposed_conv", out = 20, kernel = 3, stride = 2, groups = 20, padding = 1, output_padding = 1 },)"},
    {"TransposedConvRelu", kWide,
     FIRST
     R"({ op = "relu" }, { op = "transposed_conv", out = 33, kernel = 3, stride = 2, padding = "same" }, { op = "relu" },)"},
    {"TransposedConvGelu", kWide,
     FIRST R"({ op = "gelu" }, { op = "transposed_conv", out = 33, kernel = 2, stride = 2, bias = false }, { op = "gelu" },)"},
    {"TransposedConvBeside", kWide,
     FIRST R"({ name = "t", op = "transposed_conv", out = 20, kernel = 3, padding = 1, trainable = false },
        { op = "add", from = ["t", "first"] },)"},
    {"FrozenConvWithTrainedBias", kSmall,
     R"({ op = "conv", out = 24, kernel = 2, trainable = false, bias_trainable = true }, { op = "gelu" }, )" FIRST},
    {"FrozenInFront", kWide,
     R"({ op = "conv", out = 16, kernel = 3, trainable = false, bias_trainable = false },
        { op = "batch_norm", trainable = false, bias_trainable = false }, { op = "relu" }, )" FIRST},
    {"FrozenBetween", kWide, FIRST R"({ op = "conv", out = 16, kernel = 3, trainable = false, bias_trainable = false },
        { op = "batch_norm", trainable = false, bias_trainable = false }, { op = "relu" },)"},
    {"BatchNorm", kWide, FIRST R"({ op = "batch_norm" },)"},
    {"BatchNormWithoutScale", kWide, FIRST R"({ op = "batch_norm", scale = false }, { op = "gelu" },)"},
    {"BatchNormRelu", kWide, FIRST R"({ op = "batch_norm" }, { op = "relu" },)"},
    {"BatchNormWithoutShift", kWide, FIRST R"({ op = "batch_norm", shift = false }, { op = "relu" },)"},
    {"PoolBatchNormGelu", kWide, FIRST R"({ op = "max_pool", kernel = 2 }, { op = "batch_norm" }, { op = "gelu" },)"},
    {"PoolBatchNormRelu", kWide, FIRST R"({ op = "max_pool", kernel = 2 }, { op = "batch_norm" }, { op = "relu" },)"},
    {"MaxPool", kWide, FIRST R"({ op = "max_pool", kernel = 2 },)"},
    {"MaxPoolOfManyPlaces", kWide, FIRST R"({ op = "max_pool", kernel = 17, stride = 3, padding = [12, 12, 4, 4] },)"},
    {"PoolOfManyPlacesBatchNorm", kWide,
     FIRST R"({ op = "max_pool", kernel = 17, padding = [12, 12, 4, 4] }, { op = "batch_norm" }, { op = "relu" },)"},
    {"MaxPoolOverlapping", kWide, FIRST R"({ op = "max_pool", kernel = 3, stride = 2, padding = 1 }, { op = "batch_norm" },)"},
    {"BatchNormReluMaxPool", kWide,
     FIRST R"({ op = "batch_norm" }, { op = "relu" }, { op = "max_pool", kernel = 3, stride = 2, padding = 1 },)"},
    {"AveragePool", kWide, FIRST R"({ op = "average_pool", kernel = 3, stride = 2, padding = 1 },)"},
    {"AveragePoolCountingPadding", kWide,
     FIRST R"({ op = "average_pool", kernel = 2, stride = 2, padding = 1, count_padding = true },)"},
    {"GlobalAveragePool", kWide, FIRST R"({ op = "global_average_pool" },)"},
    {"Activations", kWide, FIRST R"({ op = "average_pool", kernel = 2 }, { op = "gelu" }, { op = "relu" },)"},
    {"Lrn", kWide, FIRST R"({ op = "lrn", alpha = 0.5 },)"},
    {"LrnOfOneChannel", kWide, FIRST R"({ op = "lrn", size = 1, alpha = 0.5 },)"},
    {"LrnOfAllChannels", kWide, FIRST R"({ op = "lrn", size = 39, alpha = 40, beta = 0.5, k = 2 },)"},
    {"Scale", kWide, FIRST R"({ op = "scale", factor = 0.7 },)"},
    {"Concat", kWide,
     R"({ name = "a", op = "conv", out = 16, kernel = 1 }, { name = "b", op = "conv", out = 7, kernel = 1, from = "@input" },
        { op = "concat", from = ["a", "b", "a"] },)"},
    {"AddOfThree", kWide,
     R"({ name = "a", op = "conv", out = 20, kernel = 1 }, { name = "b", op = "conv", out = 20, kernel = 1, from = "a" },
        { op = "add", from = ["a", "b"] }, { name = "s", op = "scale", factor = 0.5 }, { op = "add", from = ["s", "a"] },)"},
    {"Residual", kWide,
     FIRST R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["n", "first"] }, { op = "relu" },)"},
    {"ResidualGelu", kWide,
     FIRST R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["first", "n"] }, { op = "gelu" },)"},
    {"ResidualOfInput", kWide,
     R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["n", "@input"] }, { op = "relu" },)"},
    {"ResidualWithProjection", kWide,
     FIRST
     R"({ name = "c", op = "conv", out = 32, kernel = 3, stride = 2, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { name = "p", op = "conv", out = 32, kernel = 1, stride = 2, bias = false, from = "first" }, { name = "q", op = "batch_norm" },
        { op = "add", from = ["n", "q"] }, { op = "relu" },)"},
    {"NormBeforeConvInABlock", kWide,
     FIRST R"({ name = "n", op = "batch_norm" }, { op = "relu" }, { name = "c", op = "conv", out = 20, kernel = 3, padding = 1 },
        { name = "m", op = "batch_norm" }, { op = "add", from = ["m", "first"] },)"},
    {"ConvClassifier", kWide, FIRST R"({ op = "relu" }, { op = "conv", out = 5, kernel = 1 },)",
     R"({ op = "global_average_pool" })"},
    {"FlattenedMapAsLogits", kWide, FIRST R"({ op = "relu" },)", R"({ op = "conv", out = 3, kernel = 5 }, { op = "flatten" })"},
    {"MapOfOnePixelAsLogits", kWide, FIRST R"({ op = "relu" },)", R"({ op = "conv", out = 5, kernel = [6, 5] })"},
};

// The definition has no draws to compare with, but two backends draw the same from the same seed and step.
const OperatorCase kDropoutCases[] = {
    {"Dropout", kWide, FIRST R"({ op = "dropout" },)"},
    {"DropoutOfFewChannels", kSmall,
     R"({ op = "conv", out = 13, kernel = 3 }, { op = "relu" }, { op = "dropout", probability = 0.3 },)"},
    {"DropoutOfAFlattenedMap", kSmall, R"({ op = "conv", out = 13, kernel = 3 }, { op = "flatten" }, { op = "dropout" },)"},
    {"DropoutOfChannels", kWide, FIRST R"({ op = "dropout", drops = "channels" },)"},
    {"StochasticDepth", kWide, FIRST R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1 }, { op = "batch_norm" },
        { name = "d", op = "stochastic_depth", probability = 0.3 }, { op = "add", from = ["d", "first"] }, { op = "gelu" },)"},
    {"DropoutBetweenLinear", kSmall,
     R"({ op = "linear", out = 21 }, { op = "dropout" }, { op = "linear", out = 30 }, { op = "relu" },)"},
};
#undef FIRST

}  // namespace

std::span<const OperatorCase> operator_cases() { return kCases; }
std::span<const OperatorCase> dropout_cases() { return kDropoutCases; }

std::string network_text(const OperatorCase& tested) {
  const ImageShape& shape = tested.input;
  return fmt::format("input = {{ channels = {}, height = {}, width = {} }}\nlayers = [\n{}\n{}\n]\n", shape.channels,
                     shape.height, shape.width, tested.layers, tested.classifier);
}

std::string image_network_text(const OperatorCase& tested) {
  if (tested.input.channels <= 4) return network_text(tested);
  std::string layers = tested.layers;
  for (std::size_t at = 0; (at = layers.find(kInput, at)) != std::string::npos;) layers.replace(at, kInput.size(), "stem");
  layers.insert(0, fmt::format("{{ name = \"stem\", op = \"conv\", out = {}, kernel = 1 }},\n", tested.input.channels));
  OperatorCase image = tested;
  image.input.channels = 3;
  image.layers = layers.c_str();
  return network_text(image);
}

}  // namespace millrace::testkit
