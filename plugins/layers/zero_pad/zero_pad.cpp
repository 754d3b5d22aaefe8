#include "zero_pad_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// torch.nn.ZeroPad2d. For layers whose own `padding` is insufficient: more than a kernel's size, or layers without the key.
class ZeroPad final : public PortableLayer {
 public:
  struct Params {
    std::vector<std::int64_t> padding;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("zero_pad").text("Pads the input with zeros.");
    d.example("padding = [1, 2, 0, 3]", {{8, 5, 7}}).example("padding = [2, 0, 2, 0]", {{20, 3, 4}});
    d.params.add("padding", &Params::padding).required().range(0, 4096).unit("pixels").text("[top, left, bottom, right]");
  }
  explicit ZeroPad(const Params& params) : padding_(params.padding) {
    if (padding_.size() != 4)
      fail(ErrorKind::usage, "padding must be [top, left, bottom, right], found {} numbers", padding_.size());
  }

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    if (inputs[0].rank() != 3) fail(ErrorKind::usage, "its input is {}: it needs a map", to_string(inputs[0]));
    LayerPlan plan;
    plan.output = {inputs[0][0], inputs[0][1] + padding_[0] + padding_[2], inputs[0][2] + padding_[1] + padding_[3]};
    return plan;
  }
  void forward(Pass& pass) const override { pass.gather(PlaceWindow{top(), left()}, {pass.in()}, pass.out()); }
  void backward(Pass& pass) const override { pass.gather(CutWindow{top(), left()}, {pass.d_out()}, pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override {
    onnx.output(onnx.add("Pad", {onnx.input(), onnx.integers({0, 0, padding_[0], padding_[1], 0, 0, padding_[2], padding_[3]})}));
  }

 private:
  std::int32_t top() const { return static_cast<std::int32_t>(padding_[0]); }
  std::int32_t left() const { return static_cast<std::int32_t>(padding_[1]); }

  const std::vector<std::int64_t> padding_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::ZeroPad>(); }
