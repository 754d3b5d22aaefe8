#include "hard_swish_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Howard et al. 2019, arXiv 1905.02244 (MobileNetV3).
class HardSwish final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("hard_swish").text("silu with a piecewise linear sigmoid: x * min(max(x + 3, 0), 6) / 6.");
    d.example("", {{8, 5, 7}}).example("", {{10}});
  }

  void forward(Pass& pass) const override { pass.each<HardSwishKernel>(pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each<HardSwishGradient>(pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("HardSwish", {onnx.input()})); }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::HardSwish>(); }
