// scale: a constant factor.
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

LayerPlan infer_scale(const ScaleAttributes& params, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  plan.attributes = attributes(params);
  return plan;
}

void write_scale(OnnxLayer& onnx) {
  const auto factor = static_cast<float>(onnx.layer().as<ScaleAttributes>().factor);
  onnx.output(onnx.add("Mul", {onnx.input(), onnx.scalar(factor)}));
}

}  // namespace

LayerType scale_type() {
  return make_layer_type<ScaleAttributes>(
      {.name = "scale",
       .text = "Multiplies by a constant.",
       .examples = {{"factor = 0.25", {{8, 5, 7}}}, {"factor = -2.0", {{9}}}},
       .describe = [](ParamSet<ScaleAttributes>& set) { set.add("factor", &ScaleAttributes::factor).text("the constant"); },
       .infer = infer_scale,
       .write_onnx = write_scale});
}

}  // namespace millrace::ops
