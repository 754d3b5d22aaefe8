// relu and gelu.
#include <numbers>

#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

void write_relu(OnnxLayer& onnx) { onnx.output(onnx.add("Relu", {onnx.input()})); }

// x / 2 * (1 + erf(x / sqrt 2)): opset 17 has no Gelu.
void write_gelu(OnnxLayer& onnx) {
  const std::string scaled = onnx.add("Mul", {onnx.input(), onnx.scalar(static_cast<float>(1 / std::numbers::sqrt2))});
  const std::string one_more = onnx.add("Add", {onnx.add("Erf", {scaled}), onnx.scalar(1)});
  const std::string half = onnx.add("Mul", {onnx.input(), onnx.scalar(0.5F)});
  onnx.output(onnx.add("Mul", {half, one_more}));
}

}  // namespace

LayerType relu_type() {
  return make_layer_type(PlainDefinition{.name = "relu",
                                         .text = "max(x, 0).",
                                         .examples = {{"", {{8, 5, 7}}}, {"", {{9}}}},
                                         .infer = same_shape,
                                         .write_onnx = write_relu});
}

LayerType gelu_type() {
  return make_layer_type(PlainDefinition{.name = "gelu",
                                         .text = "x times the normal cumulative distribution function at x (exact, through erf).",
                                         .examples = {{"", {{8, 5, 7}}}, {"", {{9}}}},
                                         .infer = same_shape,
                                         .write_onnx = write_gelu});
}

}  // namespace millrace::ops
