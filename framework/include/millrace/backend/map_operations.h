// Planning and binding that backends share for operations on maps: with one input and one output, with several inputs (addition,
// concatenation of channels), and for the split of channels.
//
// Base: a backend's Operation, with types Map, Run (a pass or a queue) and GradientTarget, whose finish() follows its writing;
// `plan_output(Planner&, DataType, LayerPort in_place_of, int port)`, `contribute(Planner&, LayerPort, TensorId free)`, which
// plans an input's gradient, in the tensor `free` if it can, and free functions map_of, gradient_of and target_of, which locate a
// planned value, its gradient or a contribution to it.
#pragma once

#include <vector>

#include "millrace/backend/planned_operation.h"

namespace millrace {

template <class Base>
class UnaryOperation : public Base {
 public:
  using Base::Base;
  using typename Base::Planner;

  void plan(Planner& planner) override {
    learns_ = planner.learns();
    const auto& from = planner.value(this->input());
    this->plan_output(planner, from.spec.type, in_place() ? this->input() : kNoResidual);
    planner.use(from.tensor);
  }

  void plan_backward(Planner& planner) override {
    const auto& made = planner.value(this->node_.output);
    if (made.gradient == kNoTensor || !this->wants_gradient(planner, this->input())) return;
    planner.use(made.gradient);
    if (needs_input()) planner.use(planner.value(this->input()).tensor);
    if (needs_output()) planner.use(made.tensor);
    contribution_ = this->contribute(planner, this->input(), in_place() ? made.gradient : kNoTensor);
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, this->input());
    y_ = map_of(planner, binding, this->node_.output);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, this->node_.output);
    d_input_ = target_of(planner, binding, this->input(), contribution_);
  }

  void backward(typename Base::Run& run) override {
    if (!d_input_) return;
    differentiate(run);
    d_input_.finish();
  }

 protected:
  virtual void differentiate(typename Base::Run& run) = 0;  // dy_ -> d_input_
  virtual bool needs_input() const { return false; }        // by backward
  virtual bool needs_output() const { return false; }
  virtual bool in_place() const { return false; }  // output and input, or their gradients, may share memory
  bool has_gradient() const { return contribution_.tensor != kNoTensor; }

  bool learns_ = false;
  typename Base::Map x_, y_, dy_;
  typename Base::GradientTarget d_input_;

 private:
  typename Planner::Contribution contribution_;
};

template <class Base>
class JoiningOperation : public Base {
 public:
  using Base::Base;
  using typename Base::Planner;

  void plan(Planner& planner) override {
    this->plan_output(planner, planner.value(this->input()).spec.type);
    for (const LayerPort from : this->node_.inputs) planner.use(planner.value(from).tensor);
  }

  // An addition's operands all have the sum's gradient: the first takes over its memory after the others have copied it.
  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(this->node_.output).gradient;
    if (gradient == kNoTensor) return;
    planner.use(gradient);
    const bool adds = this->node_.kind == Node::Kind::add;
    const std::size_t count = this->node_.inputs.size();
    contributions_.assign(count, {});
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = adds ? count - 1 - k : k;
      const LayerPort from = this->node_.inputs[i];
      if (!this->wants_gradient(planner, from)) continue;
      contributions_[i] = this->contribute(planner, from, adds && i == 0 ? gradient : kNoTensor);
    }
  }

  void bind(const Planner& planner, const Binding& binding) override {
    y_ = map_of(planner, binding, this->node_.output);
    x_.clear();
    for (const LayerPort from : this->node_.inputs) x_.push_back(map_of(planner, binding, from));
    d_inputs_.assign(this->node_.inputs.size(), {});
    if (contributions_.empty()) return;
    dy_ = gradient_of(planner, binding, this->node_.output);
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      if (contributions_[i].tensor == kNoTensor) continue;
      d_inputs_[i] = target_of(planner, binding, this->node_.inputs[i], contributions_[i]);
    }
  }

 protected:
  typename Base::Map y_, dy_;
  std::vector<typename Base::Map> x_;
  std::vector<typename Planner::Contribution> contributions_;
  std::vector<typename Base::GradientTarget> d_inputs_;
};

template <class Base>
class SplitOperation : public Base {
 public:
  using Base::Base;
  using typename Base::Planner;

  void plan(Planner& planner) override {
    const DataType type = planner.value(this->input()).spec.type;
    for (int port = 0; port < kOutputs; ++port) this->plan_output(planner, type, kNoResidual, port);
    planner.use(planner.value(this->input()).tensor);
  }

  void plan_backward(Planner& planner) override {
    if (!this->wants_gradient(planner, this->input())) return;
    for (int port = 0; port < kOutputs; ++port) planner.use(planner.value(output(port)).gradient);
    contribution_ = this->contribute(planner, this->input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, this->input());
    for (int port = 0; port < kOutputs; ++port) y_[port] = map_of(planner, binding, output(port));
    if (contribution_.tensor == kNoTensor) return;
    for (int port = 0; port < kOutputs; ++port) dy_[port] = gradient_of(planner, binding, output(port));
    d_input_ = target_of(planner, binding, this->input(), contribution_);
  }

 protected:
  static constexpr int kOutputs = 2;
  typename Base::Map x_, y_[kOutputs], dy_[kOutputs];
  typename Base::GradientTarget d_input_;

 private:
  LayerPort output(int port) const { return {this->node_.output, port}; }
  typename Planner::Contribution contribution_;
};

}  // namespace millrace
