#include "elu_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Clevert, Unterthiner and Hochreiter 2015, arXiv 1511.07289.
class Elu final : public PortableLayer {
 public:
  struct Params {
    double alpha = 1;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("elu").text("x where positive, else alpha * (exp(x) - 1).");
    d.example("", {{8, 5, 7}}).example("alpha = 0.5", {{10}});
    d.params.add("alpha", &Params::alpha).range(0).text("negative values saturate at -alpha");
  }
  explicit Elu(const Params& params) : alpha_(static_cast<float>(params.alpha)) {}

  void forward(Pass& pass) const override { pass.each(EluKernel{alpha_}, pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each(EluGradient{alpha_}, pass.in(), pass.d_out(), pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx.add("Elu", {onnx.input()}, {{"alpha", alpha_}})); }

 private:
  const float alpha_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Elu>(); }
