// batch_norm and lrn.
#include "millrace/backend/network.h"
#include "network/op_support.h"

namespace millrace::ops {
namespace {

struct BatchNormParams : WeightParams, BatchNormAttributes {};

void describe_batch_norm(ParamSet<BatchNormParams>& set) {
  set.add("epsilon", &BatchNormParams::epsilon).range(0).text("added to the variance");
  set.add("momentum", &BatchNormParams::momentum).range(0, 1).text("share of the new value in the running statistics");
  set.add("scale", &BatchNormParams::scale).text("whether each channel has a trained factor (its weight); otherwise it is 1");
  set.add("shift", &BatchNormParams::shift).text("whether each channel has a trained shift (its bias); otherwise it is 0");
  WeightParams::describe(set);
}

void check_batch_norm(const BatchNormParams& params, Diagnostics& errors) {
  read_initialiser(params.initialiser, {}, 1, errors);
  read_initialiser(params.bias_initialiser, {}, 1, errors);
}

Parameter statistic(const char* name, const Shape& shape, double value) {
  Parameter result;
  result.name = name;
  result.shape = shape;
  result.initialiser = {"constant", value};
  result.trainable = false;
  result.statistic = true;
  return result;
}

LayerPlan infer_batch_norm(const BatchNormParams& params, const std::vector<Shape>& inputs) {
  const Shape channels = {inputs[0][0]};
  LayerPlan plan;
  plan.output = inputs[0];
  if (params.scale) plan.parameters.push_back(weight_parameter(params, channels, {"constant", 1}));
  if (params.shift) plan.parameters.push_back(bias_parameter(params, channels, {"constant", 0}));
  plan.parameters.push_back(statistic("running_mean", channels, 0));
  plan.parameters.push_back(statistic("running_var", channels, 1));
  plan.attributes = attributes(BatchNormAttributes(params));
  return plan;
}

void describe_lrn(ParamSet<LrnAttributes>& set) {
  set.add("size", &LrnAttributes::size)
      .range(1, 4095)
      .unit("channels")
      .text("neighbouring channels that are summed over: an odd number");
  set.add("alpha", &LrnAttributes::alpha).text("factor of the sum of squares");
  set.add("beta", &LrnAttributes::beta).text("exponent");
  set.add("k", &LrnAttributes::k).text("what the sum is added to");
}

LayerPlan infer_lrn(const LrnAttributes& params, const std::vector<Shape>& inputs) {
  require_maps(inputs[0]);
  // The window lies evenly around its channel. Libraries disagree about the side on which an even one has a channel more.
  if (params.size % 2 == 0) {
    fail(ErrorKind::usage, "'size' must be an odd number of channels, found {}: take {} or {}", params.size, params.size - 1,
         params.size + 1);
  }
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(params);
  return plan;
}

}  // namespace

void register_normalisation(Registry& registry) {
  registry.add(make_layer_type<BatchNormParams>({.name = "batch_norm",
                                                 .text = "Batch normalisation of each channel.",
                                                 .examples = {{"", {{8, 5, 7}}}, {"scale = false", {{20, 4, 4}}}, {"", {{9}}}},
                                                 .describe = describe_batch_norm,
                                                 .check = check_batch_norm,
                                                 .infer = infer_batch_norm}));
  registry.add(make_layer_type<LrnAttributes>(
      {.name = "lrn",
       .text = "Local response normalisation across channels, an odd number of them around each.",
       .examples = {{"alpha = 0.1", {{20, 4, 5}}}, {"size = 3\nalpha = 0.5\nbeta = 0.5\nk = 2", {{7, 3, 3}}}},
       .describe = describe_lrn,
       .infer = infer_lrn}));
}

}  // namespace millrace::ops
