#include "max_unpool_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Zeiler and Fergus 2013, arXiv 1311.2901; Badrinarayanan, Kendall and Cipolla 2015, "SegNet", arXiv 1511.00561. Equals
// torch.nn.MaxUnpool2d with the indices of torch.nn.MaxPool2d. Here the indices are recomputed from x, which is kept for the
// backward of its own layers anyway.
class MaxUnpool final : public PortableLayer {
 public:
  struct Params {
    Size kernel = {2, 2};
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("max_unpool").inputs(2, 2);
    d.text(
        "Puts the first input's values where the second's window maxima are, zeros elsewhere. The second is the input of a "
        "max_pool with this kernel, equal stride and no padding; it gets no gradient.");
    // Few windows, or windows of one value: near a tie the output jumps, and finite differences do not match gradients.
    d.example("kernel = [1, 2]", {{2, 1, 1}, {2, 1, 3}}).example("", {{2, 1, 1}, {2, 2, 2}});
    d.example("kernel = 1", {{20, 3, 4}, {20, 3, 4}});
    d.params.add("kernel", &Params::kernel).range(1, 4096).unit("pixels").text("window size; windows do not overlap");
  }
  explicit MaxUnpool(const Params& params) : kernel_(params.kernel) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    const Shape &value = inputs[0], &x = inputs[1];
    const bool maps = value.rank() == 3 && x.rank() == 3;
    if (!maps || !(value == Shape{x[0], x[1] / kernel_.height, x[2] / kernel_.width})) {
      fail(ErrorKind::usage,
           "its inputs are {} and {}: the second must be the input of a max_pool with kernel = [{}, {}] whose output is like the "
           "first",
           to_string(value), to_string(x), kernel_.height, kernel_.width);
    }
    LayerPlan plan;
    plan.output = x;
    return plan;
  }
  void forward(Pass& pass) const override {
    if (is_two_by_two())
      pass.gather(MaxUnpoolTwoByTwo{}, {pass.in(0), pass.in(1)}, pass.out());
    else
      pass.gather(MaxUnpoolKernel{Divider(kernel_.height), Divider(kernel_.width)}, {pass.in(0), pass.in(1)}, pass.out());
  }
  void backward(Pass& pass) const override {
    const auto height = static_cast<std::int32_t>(kernel_.height), width = static_cast<std::int32_t>(kernel_.width);
    if (is_two_by_two())
      pass.gather(MaxUnpoolTwoByTwoGradient{}, {pass.in(1), pass.d_out()}, pass.d_in(0));
    else
      pass.gather(MaxUnpoolGradient{height, width}, {pass.in(1), pass.d_out()}, pass.d_in(0));
  }
  // MaxPool finds the places again, as forward() does.
  void write_onnx(OnnxLayer& onnx) const override {
    const std::vector<std::int64_t> kernel = {kernel_.height, kernel_.width};
    const std::vector<OnnxAttribute> window = {{"kernel_shape", kernel}, {"strides", kernel}};
    const std::vector<std::string> pooled = onnx.add_many(2, "MaxPool", {onnx.input(1)}, window);
    const std::string shape = onnx.add("Shape", {onnx.input(1)});
    onnx.output(onnx.add("MaxUnpool", {onnx.input(0), pooled[1], shape}, window));
  }

 private:
  bool is_two_by_two() const { return kernel_.height == 2 && kernel_.width == 2; }

  const Size kernel_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::MaxUnpool>(); }
