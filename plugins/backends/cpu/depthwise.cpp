// Depthwise convolution by kernels of our own, forward and backward, with a bias and an activation behind.
#include <fmt/format.h>

#include "weighted.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

PoolWindow window_of(const ConvAttributes& conv) {
  return {conv.kernel.height, conv.kernel.width, conv.stride.height, conv.stride.width, conv.padding.top, conv.padding.left};
}

class Depthwise final : public Operation {
 public:
  Depthwise(Workshop& workshop, const Node& node) : Operation(workshop, node), window_(window_of(layer().as<ConvAttributes>())) {}

  void plan(Planner& planner) override {
    const Value& output = plan_output(planner, workshop_.type());
    planner.use(planner.value(input()).tensor);
    if (is(Activation::gelu)) before_ = planner.training() ? planner.tensor(output.spec.bytes()) : output.tensor;
    plan_weights();
  }

  void plan_backward(Planner& planner) override {
    const Value& output = planner.value(node_.output);
    has_gradient_ = output.gradient != kNoTensor;
    if (!has_gradient_) return;
    planner.use(output.gradient);
    if (is(Activation::relu)) planner.use(output.tensor);
    if (is(Activation::gelu)) planner.use(before_);
    if (trains(0)) planner.use(planner.value(input()).tensor);
    if (planner.value(input()).needs_gradient) contribution_ = planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    sums_ = y_;
    if (before_ != kNoTensor) sums_.data = binding.at(before_);
    if (!has_gradient_) return;
    dy_ = gradient_of(planner, binding, node_.output);
    if (contribution_.tensor != kNoTensor) d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void forward(const Pass&) override {
    kernels().depthwise(window_, x_, weights(), has_bias() ? value(1) : nullptr, is(Activation::relu), sums_);
    if (is(Activation::gelu)) kernels().activate(Activation::gelu, sums_, y_);
  }

  void recompute(const Pass& pass) override {
    if (!output_is_kept() || is(Activation::gelu)) forward(pass);  // what gelu is applied to is wanted too
  }

  void backward(const Pass&) override {
    if (!has_gradient_) return;
    const bool activates = !is(Activation::none);
    if (activates || trains(1)) {
      const bool wanted = activates && (trains(0) || d_input_);
      kernels().activate_backward(node_.activation, activates ? sums_ : dy_, dy_, wanted ? &dy_ : nullptr, gradient(1));
    }
    if (trains(0)) kernels().depthwise_backward_weights(window_, x_, dy_, gradient(0));
    if (!d_input_) return;
    kernels().depthwise_backward_data(window_, dy_, weights(), d_input_.written);
    d_input_.finish();
  }

  std::string detail() const override { return fmt::format("own depthwise kernels ({})", kernels().instruction_set); }

 private:
  // As the kernels read them, and as oneDNN calls that.
  void plan_weights() {
    const int parameter = layer().parameters[0];
    if (workshop_.parameters.has_layout(parameter)) return;
    const Shape& shape = workshop_.parameters.parameter(parameter).shape;  // (channels, 1, height, width)
    const memory::dims extents = {shape[0], 1, 1, shape[2], shape[3]};
    workshop_.parameters.set_layout(parameter, {extents, to_dnnl(workshop_.type()), memory::format_tag::Goihw16g},
                                    {extents, memory::data_type::f32, memory::format_tag::goihw});
  }
  const void* weights() const {
    const int parameter = layer().parameters[0];
    if (workshop_.type() == DataType::bf16) return workshop_.parameters.bf16_value(parameter);
    return workshop_.parameters.value(parameter);
  }
  bool has_bias() const { return layer().parameters.size() > 1; }
  bool is(Activation activation) const { return node_.activation == activation; }

  PoolWindow window_;
  TensorId before_ = kNoTensor;  // what gelu is applied to
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map x_, sums_, y_, dy_;
  bool has_gradient_ = false;
};

}  // namespace

// Measured beside oneDNN 2.6 at the shapes of cpu_kernels_bench, in float32, channels last, on AVX2: forward and backward
// together, 5x5 and 7x7 are 1.7 to 5.6 times as fast (the gradient of the weights alone 4 to 22 times), 3x3 takes 1.1 to 3 times
// as long. The network's input is left to oneDNN, which chooses how it lies.
bool takes_own_depthwise(const Workshop& workshop, const Node& node) {
  const Layer& layer = workshop.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  const PoolWindow window = window_of(conv);
  const bool depthwise = !conv.transposed && conv.groups == conv.out && conv.groups == layer.input_shapes[0][0];
  const bool dense = conv.dilation.height == 1 && conv.dilation.width == 1;
  const bool inside = conv.padding.bottom < window.kernel_height && conv.padding.right < window.kernel_width;
  const bool pays = window.kernel_height >= 5 && window.kernel_width >= 5;
  return depthwise && dense && inside && pays && fits_depthwise(window) && node.inputs.front() != Network::kInput;
}

std::unique_ptr<Operation> make_own_depthwise(Workshop& workshop, const Node& node) {
  return std::make_unique<Depthwise>(workshop, node);
}

}  // namespace millrace::cpu
