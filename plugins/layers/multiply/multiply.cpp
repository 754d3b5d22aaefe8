#include "multiply_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Also applies the gates of squeeze-and-excitation (Hu et al. 2017, arXiv 1709.01507).
class Multiply final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("multiply").text("The product of two inputs. The second may be a vector with a factor per channel.");
    d.inputs(2, 2).example("", {{8, 5, 7}, {8, 5, 7}}).example("", {{8, 5, 7}, {8}}).example("", {{10}, {10}});
  }
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    const bool factors = inputs[1].rank() == 1 && inputs[1][0] == inputs[0][0];
    if (!(inputs[0] == inputs[1]) && !factors) {
      fail(ErrorKind::usage, "its inputs are {} and {}: the second must be like the first, or a vector of {} factors",
           to_string(inputs[0]), to_string(inputs[1]), inputs[0][0]);
    }
    LayerPlan plan;
    plan.output = inputs[0];
    return plan;
  }
  void forward(Pass& pass) const override { pass.each<Product>(pass.in(0), pass.in(1), pass.out()); }
  void backward(Pass& pass) const override {
    if (pass.input_shape(0).rank() != pass.input_shape(1).rank())
      pass.sum(SumOfProducts{}, pass.in(0), pass.d_out(), pass.d_in(1));
    else
      pass.each<Product>(pass.in(0), pass.d_out(), pass.d_in(1));
    pass.each<Product>(pass.in(1), pass.d_out(), pass.d_in(0));
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const bool by_channel = onnx.input_shape(0).rank() != onnx.input_shape(1).rank();
    const std::string factors = by_channel ? onnx.add("Unsqueeze", {onnx.input(1), onnx.integers({2, 3})}) : onnx.input(1);
    onnx.output(onnx.add("Mul", {onnx.input(0), factors}));
  }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Multiply>(); }
