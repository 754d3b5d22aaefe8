#include "clipped_relu_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// With a ceiling of 6, ReLU6: Krizhevsky 2010, "Convolutional deep belief networks on CIFAR-10"; in MobileNetV2 (arXiv
// 1801.04381).
class ClippedRelu final : public PortableLayer {
 public:
  struct Params {
    double ceiling = 6;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("clipped_relu").text("x clamped to 0 ... ceiling: min(max(x, 0), ceiling).").also_called("relu6");
    d.example("", {{8, 5, 7}}).example("ceiling = 0.5", {{10}});
    d.params.add("ceiling", &Params::ceiling).range(0).text("largest value; above 0");
  }
  explicit ClippedRelu(const Params& params) : ceiling_(static_cast<float>(params.ceiling)) {
    if (ceiling_ == 0) fail(ErrorKind::usage, "ceiling must be above 0, found {}", params.ceiling);
  }

  void forward(Pass& pass) const override { pass.each(ClippedReluKernel{ceiling_}, pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each(ClippedReluGradient{ceiling_}, pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override {
    onnx.output(onnx.add("Clip", {onnx.input(), onnx.scalar(0), onnx.scalar(ceiling_)}));
  }

 private:
  const float ceiling_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::ClippedRelu>(); }
