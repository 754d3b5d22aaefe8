#include "channel_shuffle_kernels.h"

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Zhang et al. 2017, "ShuffleNet", arXiv 1707.01083; torch.nn.ChannelShuffle.
class ChannelShuffle final : public PortableLayer {
 public:
  struct Params {
    std::int64_t groups = 1;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("channel_shuffle")
        .text("Interleaves the channels of groups: first the first of each group, then the second, and so on.");
    d.example("groups = 2", {{8, 5, 7}}).example("groups = 3", {{24, 3, 4}}).example("groups = 5", {{10}});
    d.params.add("groups", &Params::groups).required().range(1, 65536).text("number of groups; must divide the channels");
  }
  explicit ChannelShuffle(const Params& params) : groups_(params.groups) {}

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    if (inputs[0][0] % groups_ != 0) {
      fail(ErrorKind::usage, "its input is {}: {} channels cannot be divided into {} groups", to_string(inputs[0]), inputs[0][0],
           groups_);
    }
    LayerPlan plan;
    plan.output = inputs[0];
    return plan;
  }
  void forward(Pass& pass) const override { pass.gather(shuffle(groups_, together(pass)), {pass.in()}, pass.out()); }
  void backward(Pass& pass) const override { pass.gather(shuffle(together(pass), groups_), {pass.d_out()}, pass.d_in()); }
  void write_onnx(OnnxLayer& onnx) const override {
    const Shape& shape = onnx.input_shape();
    if (onnx.has_free_size() && shape.rank() == 3) {
      const std::string rows = onnx.add("Reshape", {onnx.input(), onnx.integers({0, groups_, shape[0] / groups_, -1})});
      const std::string turned = onnx.add("Transpose", {rows}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
      onnx.output(onnx.add("Reshape", {turned, onnx.add("Shape", {onnx.input()})}));
      return;
    }
    std::vector<std::int64_t> dealt = {-1, groups_, shape[0] / groups_}, whole = {-1, shape[0]}, order = {0, 2, 1};
    for (int axis = 1; axis < shape.rank(); ++axis) {
      dealt.push_back(shape[axis]);
      whole.push_back(shape[axis]);
      order.push_back(axis + 2);
    }
    const std::string parted = onnx.add("Reshape", {onnx.input(), onnx.integers(dealt)});
    const std::string shuffled = onnx.add("Transpose", {parted}, {{"perm", order}});
    onnx.output(onnx.add("Reshape", {shuffled, onnx.integers(whole)}));
  }

 private:
  std::int64_t together(const Pass& pass) const { return pass.input_shape()[0] / groups_; }
  static ChannelShuffleKernel shuffle(std::int64_t groups, std::int64_t together) {
    return {Divider(groups), static_cast<std::int32_t>(together)};
  }

  const std::int64_t groups_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::ChannelShuffle>(); }
