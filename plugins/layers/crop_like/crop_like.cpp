#include "crop_like_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Long, Shelhamer and Darrell 2014, "Fully convolutional networks", arXiv 1411.4038; Ronneberger et al. 2015, "U-Net", arXiv
// 1505.04597.
class CropLike final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("crop_like")
        .text(
            "The middle of the first input, cropped to the second's height and width. For odd differences, the top and left lose "
            "one pixel less.");
    d.inputs(2, 2).example("", {{8, 6, 7}, {3, 4, 4}}).example("", {{20, 5, 6}, {4, 5, 6}});
  }
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    const bool maps = inputs[0].rank() == 3 && inputs[1].rank() == 3;
    if (!maps || inputs[1][1] > inputs[0][1] || inputs[1][2] > inputs[0][2]) {
      fail(ErrorKind::usage, "its inputs are {} and {}: the second must be a map at most as high and as wide as the first",
           to_string(inputs[0]), to_string(inputs[1]));
    }
    LayerPlan plan;
    plan.output = {inputs[0][0], inputs[1][1], inputs[1][2]};
    return plan;
  }
  void forward(Pass& pass) const override { pass.gather(CutWindow{margin(pass, 1), margin(pass, 2)}, {pass.in(0)}, pass.out()); }
  void backward(Pass& pass) const override {
    pass.gather(PlaceWindow{margin(pass, 1), margin(pass, 2)}, {pass.d_out()}, pass.d_in(0));
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const Shape &from = onnx.input_shape(0), &to = onnx.output_shape();
    const std::int64_t top = (from[1] - to[1]) / 2, left = (from[2] - to[2]) / 2;
    onnx.output(onnx.add("Slice", {onnx.input(0), onnx.integers({top, left}), onnx.integers({top + to[1], left + to[2]}),
                                   onnx.integers({2, 3})}));
  }

 private:
  static std::int32_t margin(const Pass& pass, int axis) {  // before the kept part
    return static_cast<std::int32_t>((pass.input_shape(0)[axis] - pass.input_shape(1)[axis]) / 2);
  }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::CropLike>(); }
