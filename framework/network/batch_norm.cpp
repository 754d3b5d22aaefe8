// Batch normalisation, arXiv 1502.03167.
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

struct BatchNormParams : WeightParams, BatchNormAttributes {};

void describe_batch_norm(ParamSet<BatchNormParams>& set) {
  set.add("epsilon", &BatchNormParams::epsilon).range(0).text("added to the variance; above 0");
  set.add("momentum", &BatchNormParams::momentum).range(0, 1).text("weight of the new value in the running statistics");
  set.add("scale", &BatchNormParams::scale).text("train a factor per channel (its weight); otherwise 1");
  set.add("shift", &BatchNormParams::shift).text("train a shift per channel (its bias); otherwise 0");
  WeightParams::describe(set);
}

Parameter statistic(const char* name, const Shape& shape, double value) {
  return Parameter{.name = name, .shape = shape, .initialiser = {"constant", value}, .trainable = false, .statistic = true};
}

LayerPlan infer_batch_norm(const BatchNormParams& params, const std::vector<Shape>& inputs) {
  if (static_cast<float>(params.epsilon) == 0) {  // a constant channel has the variance 0
    fail(ErrorKind::usage, "'epsilon' must be above 0, found {}", params.epsilon);
  }
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

void write_batch_norm(OnnxLayer& onnx) {
  const auto& norm = onnx.layer().as<BatchNormAttributes>();
  const std::int64_t channels = onnx.input_shape()[0];
  const auto all = [&](float value) { return onnx.constant({channels}, std::vector(static_cast<std::size_t>(channels), value)); };
  int next = 0;
  const std::string weight = norm.scale ? onnx.parameter(next++) : all(1);
  const std::string bias = norm.shift ? onnx.parameter(next++) : all(0);
  const std::string mean = onnx.parameter(next), variance = onnx.parameter(next + 1);
  onnx.output(onnx.add("BatchNormalization", {onnx.input(), weight, bias, mean, variance},
                       {{"epsilon", static_cast<float>(norm.epsilon)}}));
}

}  // namespace

LayerType batch_norm_type() {
  return make_layer_type<BatchNormParams>(
      {.name = "batch_norm",
       .text = "Batch normalisation of each channel.",
       .examples = {{"", {{8, 5, 7}}}, {"scale = false", {{20, 4, 4}}}, {"", {{9}}}},
       .describe = describe_batch_norm,
       .check = [](const BatchNormParams& params, Diagnostics& errors) { check_initialisers(params, 1, errors); },
       .infer = infer_batch_norm,
       .write_onnx = write_batch_norm});
}

}  // namespace millrace::ops
