#include "pixel_shuffle_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Shi et al. 2016, "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural network",
// arXiv 1609.05158; torch.nn.PixelShuffle.
class PixelShuffle final : public PortableLayer {
 public:
  struct Params {
    std::int64_t factor = 2;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("pixel_shuffle")
        .text("Enlarges height and width by a factor: rearranges factor * factor channels into as many pixels of one.");
    d.example("factor = 2", {{8, 5, 7}}).example("factor = 3", {{27, 2, 3}});
    d.params.add("factor", &Params::factor)
        .required()
        .range(1, 1024)
        .text("factor on height and width; its square must divide the channels");
  }
  explicit PixelShuffle(const Params& params) : factor_(params.factor) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    const std::int64_t area = factor_ * factor_;
    if (inputs[0].rank() != 3 || inputs[0][0] % area != 0) {
      fail(ErrorKind::usage, "its input is {}: it needs a map whose channels can be divided by {}", to_string(inputs[0]), area);
    }
    LayerPlan plan;
    plan.output = {inputs[0][0] / area, inputs[0][1] * factor_, inputs[0][2] * factor_};
    return plan;
  }
  void forward(Pass& pass) const override { pass.gather(PixelShuffleKernel{Divider(factor_)}, {pass.in()}, pass.out()); }
  void backward(Pass& pass) const override {
    pass.gather(PixelShuffleGradient{Divider(factor_), Divider(factor_ * factor_)}, {pass.d_out()}, pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override {
    onnx.output(onnx.add("DepthToSpace", {onnx.input()}, {{"blocksize", factor_}, {"mode", std::string("CRD")}}));
  }

 private:
  const std::int64_t factor_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::PixelShuffle>(); }
