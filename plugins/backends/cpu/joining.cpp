// Operations with several inputs: addition that no batch normalisation took in, and concatenation of channels.
#include "kernels/rearrange.h"
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

class Joining : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    plan_output(planner, planner.value(input()).spec.type);
    for (const int from : node_.inputs) planner.use(planner.value(from).tensor);
  }

  void bind(const Planner& planner, const Binding& binding) override {
    y_ = map_of(planner, binding, node_.output);
    x_.clear();
    for (const int from : node_.inputs) x_.push_back(map_of(planner, binding, from));
    d_inputs_.assign(node_.inputs.size(), {});
    if (contributions_.empty()) return;
    dy_ = gradient_of(planner, binding, node_.output);
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (contributions_[i].tensor != kNoTensor) d_inputs_[i].bind(planner, binding, node_.inputs[i], contributions_[i]);
    }
  }

 protected:
  // False when there is nothing to do in backward.
  bool begin_backward(Planner& planner) {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor) return false;
    planner.use(gradient);
    contributions_.assign(node_.inputs.size(), {});
    return true;
  }
  bool wants_gradient(const Planner& planner, std::size_t i) const { return planner.value(node_.inputs[i]).needs_gradient; }

  Map y_, dy_;
  std::vector<Map> x_;
  std::vector<Planner::Contribution> contributions_;
  std::vector<GradientTarget> d_inputs_;
};

class Addition final : public Joining {
 public:
  using Joining::Joining;

  // Each operand's gradient is the sum's: the first takes over its memory, after the others have copied it.
  void plan_backward(Planner& planner) override {
    if (!begin_backward(planner)) return;
    for (std::size_t i = node_.inputs.size(); i-- > 1;) {
      if (wants_gradient(planner, i)) contributions_[i] = planner.contribute(node_.inputs[i]);
    }
    const TensorId gradient = planner.value(node_.output).gradient;
    if (wants_gradient(planner, 0)) contributions_[0] = planner.contribute_in(input(), gradient);
  }

  void forward(const Pass&) override {
    kernels().add(x_[0], x_[1], y_);
    for (std::size_t i = 2; i < x_.size(); ++i) kernels().add(y_, x_[i], y_);
  }

  void backward(const Pass&) override {
    for (std::size_t i = d_inputs_.size(); i-- > 0;) {
      if (!d_inputs_[i]) continue;
      if (d_inputs_[i].add)
        kernels().add(d_inputs_[i].total, dy_, d_inputs_[i].total);
      else if (d_inputs_[i].written.data != dy_.data)
        copy(dy_, d_inputs_[i].written);
    }
  }
};

class Concatenation final : public Joining {
 public:
  using Joining::Joining;

  void plan_backward(Planner& planner) override {
    if (!begin_backward(planner)) return;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (wants_gradient(planner, i)) contributions_[i] = planner.contribute(node_.inputs[i]);
    }
  }

  void forward(const Pass&) override {
    std::int64_t channel = 0;
    for (const Map& x : x_) {
      copy_channels(x, 0, y_, channel, x.channels);
      channel += x.channels;
    }
  }

  void backward(const Pass&) override {
    std::int64_t channel = 0;
    for (std::size_t i = 0; i < d_inputs_.size(); ++i) {
      const GradientTarget& target = d_inputs_[i];
      if (target) {
        copy_channels(dy_, channel, target.written, 0, x_[i].channels);
        target.finish();
      }
      channel += x_[i].channels;
    }
  }
};

}  // namespace

std::unique_ptr<Operation> make_addition(Workshop& workshop, const Node& node) {
  return std::make_unique<Addition>(workshop, node);
}
std::unique_ptr<Operation> make_concatenation(Workshop& workshop, const Node& node) {
  return std::make_unique<Concatenation>(workshop, node);
}

}  // namespace millrace::cpu
