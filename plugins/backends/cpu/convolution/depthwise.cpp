// Depthwise convolution by our own kernels, forward and backward, with optional bias and activation.
#include <fmt/format.h>

#include <algorithm>

#include "convolution/own_convolution.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

PoolWindow window_of(const ConvAttributes& conv) {
  return {conv.kernel.height, conv.kernel.width, conv.stride.height, conv.stride.width, conv.padding.top, conv.padding.left};
}

class Depthwise final : public OwnConvolution {
 public:
  Depthwise(CompileContext& compile_context, const Node& node)
      : OwnConvolution(compile_context, node), window_(window_of(conv())) {}

  std::string detail() const override { return fmt::format("own depthwise kernels ({})", kernels().instruction_set); }

 protected:
  void plan_forward(Planner&) override {
    const int parameter = layer().parameters[0];
    if (!compile_context_.parameters.layouts().has(parameter))
      compile_context_.parameters.layouts().set(parameter, kernel_weights(), canonical_weights());
  }

  PreparedWeights* prepare() override {
    if (norm() == nullptr) return nullptr;
    compile_context_.checks.require_right_copies(canonical_weights(), kernel_weights());
    return &compile_context_.parameters.prepare(
        layer(), norm(), "depthwise", kernel_weights().get_size(),
        [from = canonical_weights(), to = kernel_weights(), engine = compile_context_.engine](const float* weights, void* data) {
          rearrange(from, weights, to, data, engine);
        });
  }

  void convolve(const Map& x, const float* bias, bool relu, const Map& y) override {
    kernels().depthwise(window_, x, weights(), bias, relu, y);
  }
  void convolve_backward_weights(const Map& x, const Map& dy, float* d_weights) override {
    kernels().depthwise_backward_weights(window_, x, dy, d_weights);
  }
  void convolve_backward_data(const Map& dy, const Map& dx) override {
    kernels().depthwise_backward_data(window_, dy, weights(), dx);
  }

 private:
  memory::dims extents() const {
    const Shape& shape = parameter_shape(0);  // (channels, 1, height, width)
    return {shape[0], 1, 1, shape[2], shape[3]};
  }
  memory::desc canonical_weights() const { return {extents(), memory::data_type::f32, memory::format_tag::goihw}; }
  memory::desc kernel_weights() const {  // the kernels' layout, as a oneDNN format
    return {extents(), to_dnnl(compile_context_.type()), memory::format_tag::Goihw16g};
  }
  const void* weights() const {
    return prepared() != nullptr ? prepared()->weights : compile_context_.parameters.computed_value(layer().parameters[0]);
  }

  PoolWindow window_;
};

bool depthwise_is_right(const CompileContext& compile_context, const Node& node, WindowOperand result) {
  OwnTrial trial = own_trial(compile_context, node, result);
  const ConvAttributes& conv = compile_context.layer(node.layer).as<ConvAttributes>();
  const memory::data_type type = result == WindowOperand::w ? memory::data_type::f32 : to_dnnl(compile_context.type());
  trial.w = trial_operand({{conv.groups, 1, 1, conv.kernel.height, conv.kernel.width}, type, memory::format_tag::Goihw16g});
  const std::string name = fmt::format("own depthwise kernels ({}), {}", kernels().instruction_set, trial.text);
  return compile_context.checks.is_right(name, trial, [&](const TrialMemory& at) {
    const Map x = trial.x_map(at), y = trial.y_map(at);
    if (result == WindowOperand::y) return kernels().depthwise(window_of(conv), x, at.w, nullptr, false, y);
    if (result == WindowOperand::x) return kernels().depthwise_backward_data(window_of(conv), y, at.w, x);
    kernels().depthwise_backward_weights(window_of(conv), x, y, static_cast<float*>(at.w));
  });
}

}  // namespace

// Measured against oneDNN 2.6 at the shapes of cpu_kernels_bench, in float32, channels last, on AVX2: forward and backward
// together, 5x5 and 7x7 are 1.7 to 5.6 times as fast (the gradient of the weights alone 4 to 22 times), 3x3 takes 1.1 to 3 times
// as long. oneDNN computes the first layer, since it chooses the input's layout.
bool takes_own_depthwise(const CompileContext& compile_context, const Node& node) {
  const Layer& layer = compile_context.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  const PoolWindow window = window_of(conv);
  const bool depthwise = !conv.transposed && conv.groups == conv.out && conv.groups == layer.input_shapes[0][0];
  const bool dense = conv.dilation.height == 1 && conv.dilation.width == 1;
  const bool inside = conv.padding.bottom < window.kernel_height && conv.padding.right < window.kernel_width;
  const bool pays = window.kernel_height >= 5 && window.kernel_width >= 5;
  if (!depthwise || !dense || !inside || !pays || !fits_depthwise(window) || node.inputs.front() == Network::kInput) return false;
  return std::ranges::all_of(kPassesOfTrials,
                             [&](WindowOperand result) { return depthwise_is_right(compile_context, node, result); });
}

std::unique_ptr<Operation> make_own_depthwise(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Depthwise>(compile_context, node);
}

}  // namespace millrace::cpu
