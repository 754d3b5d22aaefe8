// Elementwise operations: activations that were not fused, dropout, scale and flatten.
#include "kernels/dropout.h"
#include "kernels/rearrange.h"
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

// One map in, one map out.
class Unary : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    learns_ = planner.learns();
    plan_output(planner, output_type(planner), keeps_layout() ? input() : kNoResidual);
    planner.use(planner.value(input()).tensor);
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !planner.value(input()).needs_gradient) return;
    planner.use(gradient);
    if (needs_input()) planner.use(planner.value(input()).tensor);
    if (needs_output()) planner.use(planner.value(node_.output).tensor);
    contribution_ = keeps_layout() ? planner.contribute_in(input(), gradient) : planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void backward(const Pass& pass) override {
    if (!d_input_) return;
    differentiate(pass, dy_, d_input_.written);
    d_input_.finish();
  }

 protected:
  virtual void differentiate(const Pass& pass, const Map& dy, const Map& dx) = 0;
  virtual bool needs_input() const { return false; }  // by backward
  virtual bool needs_output() const { return false; }
  virtual bool keeps_layout() const { return true; }  // output and input, or their gradients, may share memory
  virtual DataType output_type(const Planner& planner) const { return planner.value(input()).spec.type; }

  bool learns_ = false;
  Map x_, y_;

 private:
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map dy_;
};

class Activate final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass&) override { kernels().activate(node_.activation, x_, y_); }

 protected:
  void differentiate(const Pass&, const Map& dy, const Map& dx) override {
    const Map& from = node_.activation == Activation::relu ? y_ : x_;
    kernels().activate_backward(node_.activation, from, dy, &dx, nullptr);
  }
  bool needs_input() const override { return node_.activation != Activation::relu; }
  bool needs_output() const override { return node_.activation == Activation::relu; }
};

class Dropout final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass& pass) override { drop(pass, x_, y_); }

 protected:
  void differentiate(const Pass& pass, const Map& dy, const Map& dx) override { drop(pass, dy, dx); }

 private:
  void drop(const Pass& pass, const Map& from, const Map& to) const {
    if (learns_)
      dropout(key(pass), from, to);
    else if (from.data != to.data)
      copy(from, to);
  }
  DropoutKey key(const Pass& pass) const {
    const auto& drops = layer().as<DropoutAttributes>();
    return {compile_context_.options.seed,
            pass.step,
            static_cast<std::uint32_t>(node_.layer),
            pass.first_sample,
            drops.probability,
            drops.by_channel,
            drops.by_pixel};
  }
};

class Scale final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass&) override { kernels().scale(factor(), x_, y_); }

 protected:
  void differentiate(const Pass&, const Map& dy, const Map& dx) override { kernels().scale(factor(), dy, dx); }

 private:
  float factor() const { return static_cast<float>(layer().as<ScaleAttributes>().factor); }
};

class Flatten final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass&) override { to_plain(x_, y_.data); }

 protected:
  void differentiate(const Pass&, const Map& dy, const Map& dx) override { from_plain(dy.data, dx); }
  bool keeps_layout() const override { return false; }
};

}  // namespace

std::unique_ptr<Operation> make_activation(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Activate>(compile_context, node);
}
std::unique_ptr<Operation> make_dropout(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Dropout>(compile_context, node);
}
std::unique_ptr<Operation> make_scale(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Scale>(compile_context, node);
}
std::unique_ptr<Operation> make_flatten(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Flatten>(compile_context, node);
}

}  // namespace millrace::cpu
