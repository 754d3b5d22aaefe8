#include "leaky_relu_kernels.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Maas, Hannun and Ng 2013, "Rectifier nonlinearities improve neural network acoustic models".
class LeakyRelu final : public PortableLayer {
 public:
  struct Params {
    double slope = 0.01;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("leaky_relu").text("x where positive, else slope * x.");
    d.example("", {{8, 5, 7}}).example("slope = 0.2", {{10}});
    d.params.add("slope", &Params::slope).text("slope below 0");
  }
  explicit LeakyRelu(const Params& params) : slope_(static_cast<float>(params.slope)) {}

  void forward(Pass& pass) const override { pass.each(LeakyReluKernel{slope_}, pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each(LeakyReluGradient{slope_}, pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("LeakyRelu", {onnx.input()}, {{"alpha", slope_}})); }

 private:
  const float slope_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::LeakyRelu>(); }
