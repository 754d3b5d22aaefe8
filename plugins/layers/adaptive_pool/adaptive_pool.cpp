// adaptive_average_pool, adaptive_max_pool and global_max_pool.
#include "adaptive_pool_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Common base: an output of fixed size for any input.
class AdaptivePool : public PortableLayer {
 public:
  struct Params {
    Size size;
  };
  explicit AdaptivePool(const Params& params) : size_(params.size) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    const Shape& from = inputs[0];
    if (from.rank() != 3) fail(ErrorKind::usage, "its input is {}: it needs a map", to_string(from));
    if (from[1] * size_.height >= kMaxProduct || from[2] * size_.width >= kMaxProduct) {
      fail(ErrorKind::usage, "its input is {} and 'size' {} x {}, which is too large", to_string(from), size_.height,
           size_.width);
    }
    LayerPlan plan;
    plan.output = {from[0], size_.height, size_.width};
    return plan;
  }

 protected:
  static void describe_size(LayerDescription<Params>& d) {
    d.params.add("size", &Params::size).required().range(1, 65536).unit("pixels").text("output size, [height, width]");
    d.example("size = [3, 2]", {{20, 5, 6}}).example("size = 2", {{8, 4, 6}}).example("size = [3, 4]", {{9, 3, 4}});
    d.example("size = [4, 5]", {{10, 2, 3}});
  }
  bool grows(const Shape& from) const { return size_.height > from[1] || size_.width > from[2]; }
  template <class Kernel>
  Kernel kernel(const Pass& pass) const {
    const Shape& from = pass.input_shape();
    return {{Divider(from[1]), Divider(size_.height)}, {Divider(from[2]), Divider(size_.width)}};
  }

  // A window of all, windows side by side, or else a slice for each row and then for each column of the output.
  std::string onnx_pool(OnnxLayer& onnx, const std::string& kind, const char* reduce) const {
    const Shape& from = onnx.input_shape();
    if (size_.height == 1 && size_.width == 1) return onnx.add("Global" + kind, {onnx.input()});
    if (from[1] % size_.height == 0 && from[2] % size_.width == 0) {
      const std::vector<std::int64_t> window = {from[1] / size_.height, from[2] / size_.width};
      return onnx.add(kind, {onnx.input()}, {{"kernel_shape", window}, {"strides", window}});
    }
    std::string value = onnx.input();
    for (const int axis : {1, 2}) {
      const std::int64_t in = from[axis], out = axis == 1 ? size_.height : size_.width;
      std::vector<std::string> windows;
      for (std::int64_t i = 0; i < out; ++i) {
        const std::string slice = onnx.add("Slice", {value, onnx.integers({i * in / out}), onnx.integers({((i + 1) * in + out - 1) / out}),
                                                     onnx.integers({axis + 1})});
        windows.push_back(onnx.add(reduce, {slice}, {{"axes", std::vector<std::int64_t>{axis + 1}}, {"keepdims", 1}}));
      }
      value = onnx.add("Concat", windows, {{"axis", axis + 1}});
    }
    return value;
  }

 private:
  static constexpr std::int64_t kMaxProduct = std::int64_t{1} << 30;  // kernels multiply input and output extents

  const Size size_;
};

// torch.nn.AdaptiveAvgPool2d
class AdaptiveAveragePool final : public AdaptivePool {
 public:
  using AdaptivePool::AdaptivePool;
  static void describe(LayerDescription<Params>& d) {
    d.name("adaptive_average_pool");
    d.text("The mean of each window. The windows cover the map and may overlap; the output size is their number.");
    describe_size(d);
  }
  void forward(Pass& pass) const override { pass.gather(kernel<AdaptiveAverage>(pass), {pass.in()}, pass.out()); }
  void backward(Pass& pass) const override {
    if (grows(pass.input_shape()))
      pass.gather(kernel<AdaptiveAverageGradient>(pass), {pass.d_out()}, pass.d_in());
    else
      pass.gather(kernel<ShrinkingAverageGradient>(pass), {pass.d_out()}, pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx_pool(onnx, "AveragePool", "ReduceMean")); }
};

// torch.nn.AdaptiveMaxPool2d
class AdaptiveMaxPool : public AdaptivePool {
 public:
  using AdaptivePool::AdaptivePool;
  static void describe(LayerDescription<Params>& d) {
    d.name("adaptive_max_pool");
    d.text("The largest value of each window. The windows cover the map and may overlap; the output size is their number.");
    describe_size(d);
  }
  void forward(Pass& pass) const override { pass.gather(kernel<AdaptiveLargest>(pass), {pass.in()}, pass.out()); }
  void backward(Pass& pass) const override {
    pass.gather(kernel<AdaptiveLargestGradient>(pass), {pass.in(), pass.out(), pass.d_out()}, pass.d_in());
  }
  void write_onnx(OnnxLayer& onnx) const override { onnx.output(onnx_pool(onnx, "MaxPool", "ReduceMax")); }
};

class GlobalMaxPool final : public AdaptiveMaxPool {
 public:
  struct Params {};
  GlobalMaxPool() : AdaptiveMaxPool(AdaptivePool::Params{{1, 1}}) {}
  static void describe(LayerDescription<Params>& d) {
    d.name("global_max_pool").text("The largest value of each channel, as a vector.");
    d.example("", {{9, 3, 2}}).example("", {{20, 2, 2}});
  }
  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan = AdaptiveMaxPool::plan(inputs);
    plan.output = {inputs[0][0]};
    return plan;
  }
  void write_onnx(OnnxLayer& onnx) const override {
    onnx.output(onnx.add("Flatten", {onnx.add("GlobalMaxPool", {onnx.input()})}));
  }
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART {
  registry.add_layer<millrace::layers::AdaptiveAveragePool>();
  registry.add_layer<millrace::layers::AdaptiveMaxPool>();
  registry.add_layer<millrace::layers::GlobalMaxPool>();
}
