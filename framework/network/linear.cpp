// linear: a fully connected layer.
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

struct LinearParams : WeightParams {
  std::int64_t out = 0;
  bool bias = true;
};

void describe_linear(ParamSet<LinearParams>& set) {
  set.add("out", &LinearParams::out).required().range(1, kMaxChannels).text("number of outputs");
  set.add("bias", &LinearParams::bias).text("add a bias per output");
  WeightParams::describe(set);
}

LayerPlan infer_linear(const LinearParams& params, const std::vector<Shape>& inputs) {
  const std::int64_t in = inputs[0].elements();
  LayerPlan plan;
  plan.output = {params.out};
  plan.parameters.push_back(weight_parameter(params, {params.out, in}, kDefaultWeight));
  if (params.bias) plan.parameters.push_back(bias_parameter(params, {params.out}, default_bias(in)));
  plan.multiply_adds = static_cast<std::uint64_t>(params.out) * static_cast<std::uint64_t>(in);
  plan.attributes = attributes(LinearAttributes{params.out, params.bias});
  return plan;
}

void write_linear(OnnxLayer& onnx) {
  const std::string vector = onnx.input_shape().rank() == 1 ? onnx.input() : onnx.add("Flatten", {onnx.input()});
  std::vector<std::string> inputs = {vector, onnx.parameter(0)};
  if (onnx.layer().as<LinearAttributes>().bias) inputs.push_back(onnx.parameter(1));
  onnx.output(onnx.add("Gemm", std::move(inputs), {{"transB", 1}}));
}

}  // namespace

LayerType linear_type() {
  return make_layer_type<LinearParams>(
      {.name = "linear",
       .text = "Fully connected layer; flattens its input.",
       .examples = {{"out = 7", {{20}}}, {"out = 9\nbias = false", {{5, 3, 4}}}},
       .describe = describe_linear,
       .check = [](const LinearParams& params, Diagnostics& errors) { check_initialisers(params, 2, errors); },
       .infer = infer_linear,
       .write_onnx = write_linear});
}

}  // namespace millrace::ops
