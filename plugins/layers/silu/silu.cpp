#include "silu_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Elfwing, Uchibe and Doya 2017, arXiv 1702.03118.
class Silu final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("silu").text("x / (1 + exp(-x)).").also_called("swish").example("", {{8, 5, 7}}).example("", {{10}});
  }

  void forward(Pass& pass) const override { pass.each<SiluKernel>(pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each<SiluGradient>(pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override {
    onnx.output(onnx.add("Mul", {onnx.input(), onnx.add("Sigmoid", {onnx.input()})}));
  }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Silu>(); }
