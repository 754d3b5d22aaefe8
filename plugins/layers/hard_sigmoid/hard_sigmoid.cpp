#include "hard_sigmoid_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// The function of the gates in MobileNetV3 (Howard et al. 2019, arXiv 1905.02244).
class HardSigmoid final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("hard_sigmoid").text("A piecewise linear sigmoid: min(max(x + 3, 0), 6) / 6.");
    d.example("", {{8, 5, 7}}).example("", {{10}});
  }

  void forward(Pass& pass) const override { pass.each<HardSigmoidKernel>(pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each<HardSigmoidGradient>(pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("HardSigmoid", {onnx.input()}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}})); }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::HardSigmoid>(); }
