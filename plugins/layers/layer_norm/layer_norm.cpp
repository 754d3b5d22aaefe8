#include "layer_norm_kernels.h"

#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::layers {
namespace {

// Ba, Kiros and Hinton 2016, arXiv 1607.06450, over the channels of each place, as in ConvNeXt (arXiv 2201.03545).
class LayerNorm final : public PortableLayer {
 public:
  struct Params {
    double epsilon = 1e-6;
  };
  static void describe(LayerDescription<Params>& d) {
    d.name("layer_norm").text("Normalises the channels at each position to mean 0 and variance 1, then scales and shifts them.");
    d.example("", {{8, 5, 7}}).example("epsilon = 1e-5", {{20}});
    d.params.add("epsilon", &Params::epsilon).range(0).text("added to the variance; above 0");
  }
  explicit LayerNorm(const Params& params) : epsilon_(static_cast<float>(params.epsilon)) {
    if (epsilon_ == 0) fail(ErrorKind::usage, "epsilon must be above 0, found {}", params.epsilon);
  }

  LayerPlan plan(const std::vector<Shape>& inputs) const override {
    LayerPlan plan;
    plan.output = inputs[0];
    const Shape channels = {inputs[0][0]};
    plan.parameters.push_back({.name = "weight", .shape = channels, .initialiser = {"constant", 1}});
    plan.parameters.push_back({.name = "bias", .shape = channels, .initialiser = {"constant", 0}});
    return plan;
  }
  void forward(Pass& pass) const override {
    pass.row(LayerNormKernel{epsilon_}, {pass.in(), pass.parameter(0), pass.parameter(1)},
             {pass.out(), pass.places(kMean), pass.places(kInverse)});
  }
  void backward(Pass& pass) const override {
    pass.sum(LayerNormWeightTerm{}, pass.d_out(), pass.in(), pass.places(kMean), pass.places(kInverse), pass.d_parameter(0));
    pass.sum(LayerNormBiasTerm{}, pass.d_out(), pass.d_parameter(1));
    pass.row(LayerNormGradient{}, {pass.in(), pass.d_out(), pass.parameter(0), pass.places(kMean), pass.places(kInverse)},
             {pass.d_in()});
  }
  void write_onnx(OnnxLayer& onnx) const override {
    const bool is_map = onnx.input_shape().rank() == 3;
    const auto moved = [&](const std::string& value, std::vector<std::int64_t> order) {
      return is_map ? onnx.add("Transpose", {value}, {{"perm", std::move(order)}}) : value;
    };
    const std::string last = moved(onnx.input(), {0, 2, 3, 1});
    const std::string normal = onnx.add("LayerNormalization", {last, onnx.parameter(0), onnx.parameter(1)},
                                        {{"axis", -1}, {"epsilon", epsilon_}});
    onnx.output(moved(normal, {0, 3, 1, 2}));
  }

 private:
  static constexpr int kMean = 0, kInverse = 1;
  const float epsilon_;
};

}  // namespace
}  // namespace millrace::layers

MILLRACE_PART { registry.add_layer<millrace::layers::LayerNorm>(); }
