#include "sigmoid_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

class Sigmoid final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("sigmoid").text("1 / (1 + exp(-x)).").example("", {{8, 5, 7}}).example("", {{10}});
  }

  void forward(Pass& pass) const override { pass.each<SigmoidKernel>(pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each<SigmoidGradient>(pass.out(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("Sigmoid", {onnx.input()})); }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Sigmoid>(); }
