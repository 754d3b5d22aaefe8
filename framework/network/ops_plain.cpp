// Ops without weights: relu, gelu, flatten, dropout, stochastic_depth, scale, add, concat and split.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "millrace/backend/network.h"
#include "network/op_support.h"

namespace millrace::ops {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
constexpr double kMostDropped = 0.999;

void describe_nothing(ParamSet<NoParams>&) {}

LayerPlan same_shape(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  return plan;
}

LayerPlan infer_flatten(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = {inputs[0].elements()};
  return plan;
}

struct DropoutParams {
  double probability = 0.5;
  std::string drops = "values";
};

LayerPlan infer_dropout(const DropoutParams& params, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(DropoutAttributes{params.probability, params.drops != "samples", params.drops == "values"});
  return plan;
}

struct StochasticDepthParams {
  double probability = 0;
};

LayerPlan infer_stochastic_depth(const StochasticDepthParams& params, const std::vector<Shape>& inputs) {
  return infer_dropout({params.probability, "samples"}, inputs);
}

LayerPlan infer_scale(const ScaleAttributes& params, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(params);
  return plan;
}

std::string list(const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(to_string(shape));
  return fmt::format("{}", fmt::join(texts, " and "));
}

LayerPlan infer_add(const NoParams&, const std::vector<Shape>& inputs) {
  if (!std::all_of(inputs.begin(), inputs.end(), [&](const Shape& shape) { return shape == inputs[0]; })) {
    fail(ErrorKind::usage, "its inputs are {}, but only equal shapes can be added: give both ways the same channels and strides",
         list(inputs));
  }
  LayerPlan plan;
  plan.output = inputs[0];
  return plan;
}

LayerPlan infer_concat(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    bool fits = inputs[i].rank() == inputs[0].rank();
    for (int axis = 1; fits && axis < inputs[0].rank(); ++axis) fits = inputs[i][axis] == inputs[0][axis];
    if (!fits) {
      fail(ErrorKind::usage, "its inputs are {}, but channels can only be joined when height and width are equal", list(inputs));
    }
    plan.output[0] += inputs[i][0];
  }
  return plan;
}

LayerPlan infer_split(const SplitAttributes& params, const std::vector<Shape>& inputs) {
  const std::int64_t channels = inputs[0][0], first = params.channels > 0 ? params.channels : channels / 2;
  if (first >= channels || first == 0 || (params.channels == 0 && channels % 2 != 0)) {
    fail(ErrorKind::usage,
         "its input is {}: 'channels' must leave some of the {} to the second output, and without it both get "
         "half of them",
         to_string(inputs[0]), channels);
  }
  LayerPlan plan;
  plan.output = plan.more_outputs.emplace_back(inputs[0]);
  plan.output[0] = first;
  plan.more_outputs[0][0] = channels - first;
  plan.attributes = attributes(params);
  return plan;
}

// Of Srivastava et al. 2014, "Dropout"; channels: Tompson et al. 2015, arXiv 1411.4280; samples: Huang et al. 2016, arXiv
// 1603.09382.
void register_dropout(Registry& registry) {
  registry.add(make_layer_type<DropoutParams>(
      {.name = "dropout",
       .text = "In training, zeroes values by chance and scales up the others.",
       .examples = {{"", {{8, 5, 7}}},
                    {"probability = 0.3", {{9}}},
                    {"drops = 'channels'", {{20, 3, 4}}},
                    {"drops = 'samples'\nprobability = 0.3", {{8, 5, 7}}}},
       .describe =
           [](ParamSet<DropoutParams>& set) {
             set.add("probability", &DropoutParams::probability).range(0, kMostDropped).text("chance to be zeroed");
             set.add("drops", &DropoutParams::drops)
                 .choices({"values", "channels", "samples"})
                 .text("what is zeroed together: each value alone, whole channels of a sample (Dropout2d), or whole samples");
           },
       .infer = infer_dropout}));
  registry.add(make_layer_type<StochasticDepthParams>(
      {.name = "stochastic_depth",
       .text = "In training, zeroes whole samples by chance and scales up the others: for a branch, before it is added. The same "
               "as dropout with drops = \"samples\".",
       .examples = {{"probability = 0.2", {{8, 5, 7}}}},
       .describe =
           [](ParamSet<StochasticDepthParams>& set) {
             set.add("probability", &StochasticDepthParams::probability)
                 .required()
                 .range(0, kMostDropped)
                 .text("chance of each sample to be zeroed");
           },
       .infer = infer_stochastic_depth}));
}

}  // namespace

void register_plain(Registry& registry) {
  const auto add = [&](const char* name, const char* text, LayerPlan (*infer)(const NoParams&, const std::vector<Shape>&),
                       std::vector<LayerExample> examples, int least = 1, int most = 1) {
    registry.add(make_layer_type<NoParams>({.name = name,
                                            .text = text,
                                            .examples = std::move(examples),
                                            .least_inputs = least,
                                            .most_inputs = most,
                                            .describe = describe_nothing,
                                            .infer = infer}));
  };
  add("relu", "max(x, 0).", same_shape, {{"", {{8, 5, 7}}}, {"", {{9}}}});
  add("gelu", "x times the normal distribution's cumulative function of x (exact, through erf).", same_shape,
      {{"", {{8, 5, 7}}}, {"", {{9}}}});
  add("flatten", "The same values as a vector.", infer_flatten, {{"", {{9, 3, 4}}}});
  add("add", "The sum of its inputs.", infer_add, {{"", {{9, 3, 4}, {9, 3, 4}}}, {"", {{9}, {9}, {9}}}}, 2, kAny);
  add("concat", "The channels of its inputs, one after another.", infer_concat,
      {{"", {{9, 3, 4}, {16, 3, 4}}}, {"", {{9}, {5}, {16}}}}, 2, kAny);
  registry.add(make_layer_type<SplitAttributes>(
      {.name = "split",
       .text = "The first channels and the others: two outputs.",
       .examples = {{"", {{8, 5, 7}}}, {"channels = 5", {{21, 4, 3}}}, {"channels = 3", {{9}}}},
       .outputs = {{"first"}, {"second"}},
       .describe =
           [](ParamSet<SplitAttributes>& set) {
             set.add("channels", &SplitAttributes::channels).range(0).text("of the output 'first'; 0: half of them");
           },
       .infer = infer_split}));
  register_dropout(registry);
  registry.add(make_layer_type<ScaleAttributes>(
      {.name = "scale",
       .text = "Multiplies by a constant.",
       .examples = {{"factor = 0.25", {{8, 5, 7}}}, {"factor = -2.0", {{9}}}},
       .describe = [](ParamSet<ScaleAttributes>& set) { set.add("factor", &ScaleAttributes::factor).text("the constant"); },
       .infer = infer_scale}));
}

}  // namespace millrace::ops
