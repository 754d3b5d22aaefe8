// Local response normalisation across channels.
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

class Lrn final : public Operation {
 public:
  Lrn(CompileContext& compile_context, const Node& node) : Operation(compile_context, node) {
    const auto& lrn = layer().as<LrnAttributes>();
    window_ = {lrn.size, static_cast<float>(lrn.alpha), static_cast<float>(lrn.beta), static_cast<float>(lrn.k)};
  }

  void plan(Planner& planner) override {
    plan_output(planner, planner.value(input()).spec.type);
    planner.use(planner.value(input()).tensor);
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !planner.value(input()).needs_gradient) return;
    planner.use(gradient);
    planner.use(planner.value(input()).tensor);
    contribution_ = planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void forward(const Pass&) override { kernels().lrn(window_, x_, y_); }

  void backward(const Pass&) override {
    if (!d_input_) return;
    kernels().lrn_backward(window_, x_, dy_, d_input_.written);
    d_input_.finish();
  }

 private:
  LrnWindow window_;
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map x_, y_, dy_;
};

}  // namespace

std::unique_ptr<Operation> make_lrn(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Lrn>(compile_context, node);
}

}  // namespace millrace::cpu
