#include "layer_scale_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Touvron et al. 2021, arXiv 2103.17239, at the end of a residual branch; 1e-6 as in ConvNeXt (arXiv 2201.03545).
class LayerScale final : public PortableLayer {
 public:
  struct Params {
    double initial = 1e-6;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("layer_scale").text("x * weight, with a trained weight per channel.");
    d.example("", {{8, 5, 7}}).example("initial = 0.5", {{10}});
    d.params.add("initial", &Params::initial).text("initial weight");
  }
  explicit LayerScale(const Params& params) : initial_(params.initial) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    plan.parameters.push_back({.name = "weight", .shape = {inputs[0][0]}, .initialiser = {"constant", initial_}});
    return plan;
  }
  void forward(Pass& pass) const override { pass.each<LayerScaleKernel>(pass.in(), pass.parameter(0), pass.out()); }
  void backward(Pass& pass) const override {
    pass.sum(LayerScaleTerm{}, pass.in(), pass.d_out(), pass.d_parameter(0));
    pass.each<LayerScaleKernel>(pass.d_out(), pass.parameter(0), pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const Shape& shape = onnx.input_shape();
    const std::vector<std::int64_t> channels =
        shape.rank() == 3 ? std::vector<std::int64_t>{shape[0], 1, 1} : std::vector<std::int64_t>{shape[0]};
    onnx.output(onnx.add("Mul", {onnx.input(), onnx.parameter(0, channels)}));
  }

 private:
  const double initial_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::LayerScale>(); }
