// flatten: maps to a vector.
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

LayerPlan infer_flatten(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = {inputs[0].elements()};
  return plan;
}

void write_flatten(OnnxLayer& onnx) { onnx.output(onnx.add("Flatten", {onnx.input()})); }

}  // namespace

LayerType flatten_type() {
  return make_layer_type(PlainDefinition{.name = "flatten",
                                         .text = "The input's values as a vector.",
                                         .examples = {{"", {{9, 3, 4}}}},
                                         .infer = infer_flatten,
                                         .write_onnx = write_flatten});
}

}  // namespace millrace::ops
