#include "upsample_kernels.h"

#include <cmath>

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// torch.nn.Upsample. Nearest places are computed in integers; PyTorch's float32 may round to a neighbour if `size` is not a
// multiple of the input's.
class Upsample final : public PortableLayer {
 public:
  struct Params {
    std::optional<Size> factor, size;
    std::string mode = "nearest";
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("upsample").text("The map resized in height and width.");
    d.example("factor = 2", {{8, 5, 7}}).example("factor = [1, 3]", {{20, 3, 4}}).example("size = [7, 3]", {{9, 3, 4}});
    d.example("factor = 2\nmode = 'bilinear'", {{8, 5, 7}}).example("factor = [3, 2]\nmode = 'bilinear'", {{20, 3, 4}});
    d.example("size = [7, 3]\nmode = 'bilinear'", {{9, 3, 4}});
    d.params.add("factor", &Params::factor).range(1, 1024).text("factor on height and width");
    d.params.add("size", &Params::size).range(1, 65536).unit("pixels").text("output size, instead of a factor; may be smaller");
    d.params.add("mode", &Params::mode)
        .choices({"nearest", "bilinear"})
        .text("interpolation; bilinear: pixels are squares, corners not aligned");
  }
  explicit Upsample(const Params& params) : params_(params) {
    if (params.factor.has_value() == params.size.has_value()) fail(ErrorKind::usage, "it needs either 'factor' or 'size'");
  }

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    if (inputs[0].rank() != 3) fail(ErrorKind::usage, "its input is {}: it needs a map", to_string(inputs[0]));
    LayerPlan plan;
    plan.output = output_of(inputs[0]);
    for (const int axis : {1, 2}) {
      if (inputs[0][axis] * plan.output[axis] < kMaxProduct) continue;
      fail(ErrorKind::usage, "its input is {} and its output {}, which is too large", to_string(inputs[0]),
           to_string(plan.output));
    }
    return plan;
  }
  void forward(Pass& pass) const override {
    const Shape &in = pass.input_shape(), out = output_of(in);
    if (is_nearest())
      pass.gather(NearestKernel{Divider(out[1]), Divider(out[2])}, {pass.in()}, pass.out());
    else
      pass.gather(BilinearKernel{scale(in, out, 1), scale(in, out, 2)}, {pass.in()}, pass.out());
  }
  void backward(Pass& pass) const override {
    const Shape &in = pass.input_shape(), out = output_of(in);
    const bool doubled = out[1] == 2 * in[1] && out[2] == 2 * in[2];
    const auto height = static_cast<std::int32_t>(in[1]), width = static_cast<std::int32_t>(in[2]);
    if (is_nearest() && doubled)
      pass.gather(DoubledNearestGradient{}, {pass.d_out()}, pass.d_in());
    else if (is_nearest())
      pass.gather(NearestGradient{Divider(in[1]), Divider(in[2])}, {pass.d_out()}, pass.d_in());
    else if (doubled)
      pass.gather(DoubledBilinearGradient{height, width}, {pass.d_out()}, pass.d_in());
    else
      pass.gather(BilinearGradient{scale(in, out, 1), scale(in, out, 2), height, width}, {pass.d_out()}, pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const Shape &in = onnx.input_shape(), &out = onnx.output_shape();
    const std::string scales = onnx.constant({4}, {1, 1, onnx_scale(in[1], out[1]), onnx_scale(in[2], out[2])});
    std::vector<OnnxAttribute> attributes = {{"mode", std::string(is_nearest() ? "nearest" : "linear")}};
    attributes.push_back({"coordinate_transformation_mode", std::string(is_nearest() ? "asymmetric" : "half_pixel")});
    if (is_nearest()) attributes.push_back({"nearest_mode", std::string("floor")});
    onnx.output(onnx.add("Resize", {onnx.input(), "", scales}, std::move(attributes)));
  }

 private:
  static constexpr std::int64_t kMaxProduct = std::int64_t{1}
                                               << 30;  // limits the product of input and output extents, which kernels compute

  bool is_nearest() const { return params_.mode == "nearest"; }
  Shape output_of(const Shape& input) const {
    if (params_.size) return {input[0], params_.size->height, params_.size->width};
    return {input[0], input[1] * params_.factor->height, input[2] * params_.factor->width};
  }
  // The factor as runtimes need it to make floor(in * factor) places: at least the quotient.
  static float onnx_scale(std::int64_t in, std::int64_t out) {
    float factor = static_cast<float>(out) / static_cast<float>(in);
    while (std::floor(static_cast<float>(in) * factor) < static_cast<float>(out)) factor = std::nextafter(factor, 2 * factor);
    return factor;
  }
  static float scale(const Shape& in, const Shape& out, int axis) {
    return static_cast<float>(in[axis]) / static_cast<float>(out[axis]);
  }

  const Params params_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::Upsample>(); }
