#include "parametric_relu_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// He et al. 2015, arXiv 1502.01852, with a slope for each channel.
class ParametricRelu final : public PortableLayer {
 public:
  struct Params {
    double initial = 0.25;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("parametric_relu").text("x where positive, else weight * x, with a trained weight per channel.");
    d.example("", {{8, 5, 7}}).example("initial = 0.1", {{10}});
    d.params.add("initial", &Params::initial).text("initial weight");
  }
  explicit ParametricRelu(const Params& params) : initial_(params.initial) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    plan.parameters.push_back({.name = "weight", .shape = {inputs[0][0]}, .initialiser = {"constant", initial_}});
    return plan;
  }
  void forward(Pass& pass) const override { pass.each<ParametricReluKernel>(pass.in(), pass.parameter(0), pass.out()); }
  void backward(Pass& pass) const override {
    pass.sum(ParametricReluTerm{}, pass.in(), pass.d_out(), pass.d_parameter(0));
    pass.each<ParametricReluGradient>(pass.in(), pass.parameter(0), pass.d_out(), pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const Shape& shape = onnx.input_shape();
    const std::vector<std::int64_t> channels =
        shape.rank() == 3 ? std::vector<std::int64_t>{shape[0], 1, 1} : std::vector<std::int64_t>{shape[0]};
    onnx.output(onnx.add("PRelu", {onnx.input(), onnx.parameter(0, channels)}));
  }

 private:
  const double initial_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::ParametricRelu>(); }
