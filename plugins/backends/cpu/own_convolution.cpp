#include "own_convolution.h"

namespace millrace::cpu {

void OwnConvolution::plan(Planner& planner) {
  const Value& output = plan_output(planner, workshop_.type());
  planner.use(planner.value(input()).tensor);
  if (is(Activation::gelu)) before_ = planner.training() ? planner.tensor(output.spec.bytes()) : output.tensor;
  if (computes_forward()) plan_forward(planner);
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
  sums_ = y_;
  if (before_ != kNoTensor) sums_.data = binding.at(before_);
  bind_scratch(binding);
  if (!has_gradient_) return;
  dy_ = gradient_of(planner, binding, node_.output);
  if (contribution_.tensor != kNoTensor) d_input_ = target_of(planner, binding, input(), contribution_);
}

void OwnConvolution::forward(const Pass&) {
  convolve(x_, has_bias() ? value(1) : nullptr, is(Activation::relu), sums_);
  if (is(Activation::gelu)) kernels().activate(Activation::gelu, sums_, y_);
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

}  // namespace millrace::cpu
