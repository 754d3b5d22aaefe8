#include "convolution/own_convolution.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

namespace millrace::cpu {

void OwnConvolution::plan(Planner& planner) {
  const Value& output = plan_output(planner, compile_context_.type());
  planner.use(planner.value(input()).tensor);
  if (node_.residual != kNoResidual) planner.use(planner.value(node_.residual).tensor);
  if (is(Activation::gelu)) before_ = planner.training() ? planner.tensor(output.spec.bytes()) : output.tensor;
  if (compile_context_.predicts()) prepared_ = prepare();
  if (computes_forward() && prepared_ == nullptr) plan_forward(planner);
}

void OwnConvolution::plan_backward(Planner& planner) {
  const Value& output = planner.value(node_.output);
  has_gradient_ = output.gradient != kNoTensor;
  if (!has_gradient_) return;
  planner.use(output.gradient);
  if (is(Activation::relu)) planner.use(output.tensor);
  if (is(Activation::gelu)) planner.use(before_);
  if (trains(0)) {
    planner.use(planner.value(input()).tensor);
    plan_weights(planner);
  }
  if (planner.value(input()).needs_gradient) {
    contribution_ = planner.contribute(input());
    plan_data(planner);
  }
}

void OwnConvolution::bind(const Planner& planner, const Binding& binding) {
  x_ = map_of(planner, binding, input());
  y_ = map_of(planner, binding, node_.output);
  if (node_.residual != kNoResidual) residual_ = map_of(planner, binding, node_.residual);
  zeros_.assign(static_cast<std::size_t>(layer().output[0]), 0.0F);
  sums_ = y_;
  if (before_ != kNoTensor) sums_.data = binding.at(before_);
  bind_scratch(binding);
  if (!has_gradient_) return;
  dy_ = gradient_of(planner, binding, node_.output);
  if (contribution_.tensor != kNoTensor) d_input_ = target_of(planner, binding, input(), contribution_);
}

void OwnConvolution::forward(const Pass&) {
  if (prepared_ != nullptr) compile_context_.parameters.refresh(*prepared_, compile_context_.engine);
  const float* const bias = prepared_ != nullptr ? prepared_->bias : has_bias() ? value(1) : nullptr;
  const bool apart = node_.residual != kNoResidual || (norm_ != nullptr && prepared_ == nullptr);
  convolve(x_, bias, !apart && is(Activation::relu), sums_);
  if (apart) finish();
  if (is(Activation::gelu)) kernels().activate(Activation::gelu, sums_, y_);
}

// Normalises unless the weights do, adds the residual, and applies a ReLU in the same pass.
void OwnConvolution::finish() const {
  NormaliseArguments arguments;
  if (prepared_ == nullptr && norm_ != nullptr) {
    arguments = normalise_arguments(compile_context_.parameters, *norm_);
  } else {
    arguments.mean = arguments.variance = zeros_.data();
    arguments.epsilon = 1;
  }
  arguments.x = arguments.y = sums_;
  arguments.residual = node_.residual != kNoResidual ? &residual_ : nullptr;
  arguments.activation = is(Activation::relu) ? Activation::relu : Activation::none;
  kernels().normalise(arguments);
}

void OwnConvolution::recompute(const Pass& pass) {
  if (computes_forward()) forward(pass);
}

void OwnConvolution::backward(const Pass&) {
  if (!has_gradient_) return;
  const bool activates = !is(Activation::none);
  if (activates || trains(1)) {
    const bool wanted = activates && (trains(0) || d_input_);
    kernels().activate_backward(node_.activation, activates ? sums_ : dy_, dy_, wanted ? &dy_ : nullptr, gradient(1));
  }
  if (trains(0)) convolve_backward_weights(x_, dy_, gradient(0));
  if (!d_input_) return;
  convolve_backward_data(dy_, d_input_.written);
  d_input_.finish();
}

OwnTrial own_trial(const CompileContext& compile_context, const Node& node, WindowOperand result) {
  const Layer& layer = compile_context.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  // At most the network's size: a trial must not need more memory.
  const CompileOptions& options = compile_context.options;
  const std::int64_t most = std::max({options.train_batch, options.largest_train_batch, options.infer_batch, 2U});
  const std::int64_t samples = std::clamp<std::int64_t>(omp_get_max_threads(), 2, most);
  OwnTrial trial;
  trial.input = MapSpec::of(layer.input_shapes[0], samples, compile_context.type(), compile_context.layout);
  trial.output = MapSpec::of(layer.output, samples, compile_context.type(), compile_context.layout);
  const auto& x = trial.input;
  const auto& y = trial.output;
  trial.shape = {.n = samples, .groups = conv.groups, .c = x.channels / conv.groups, .k = y.channels / conv.groups};
  trial.shape.rows = {x.height, y.height, conv.kernel.height, conv.stride.height, conv.dilation.height, conv.padding.top};
  trial.shape.columns = {x.width, y.width, conv.kernel.width, conv.stride.width, conv.dilation.width, conv.padding.left};
  trial.result = result;
  trial.x = trial_operand(x.desc());
  trial.y = trial_operand(y.desc());
  const dnnl::memory::dims extents = {conv.groups, trial.shape.k, trial.shape.c, conv.kernel.height, conv.kernel.width};
  trial.w = trial_operand({extents, dnnl::memory::data_type::f32, dnnl::memory::format_tag::goihw});
  trial.text =
      fmt::format("{} of a convolution in {}, {}: {}x{}x{}x{} -> {}x{}x{}, {} groups, windows {}x{}, stride {}x{}, padding {}x{}",
                  result == WindowOperand::y   ? "forward"
                  : result == WindowOperand::x ? "gradient of the input"
                                               : "gradient of the weights",
                  to_string(x.type), compile_context.layout == Layout::blocked ? "blocked" : "channels last", x.n, x.channels,
                  x.height, x.width, y.channels, y.height, y.width, conv.groups, conv.kernel.height, conv.kernel.width,
                  conv.stride.height, conv.stride.width, conv.padding.top, conv.padding.left);
  return trial;
}

}  // namespace millrace::cpu
