#include "softmax_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

class Softmax final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("softmax").text("Exponentials divided by their sum over channels.").example("", {{8, 5, 7}}).example("", {{9}});
  }

  void forward(Pass& pass) const override { pass.row(SoftmaxKernel{}, {pass.in()}, {pass.out()}); }
  void backward(Pass& pass) const override { pass.row(SoftmaxGradient{}, {pass.out(), pass.d_out()}, {pass.d_in()}); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("Softmax", {onnx.input()}, {{"axis", 1}})); }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Softmax>(); }
