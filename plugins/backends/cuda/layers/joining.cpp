// Operations with several inputs: addition that no batch normalisation took in, and concatenation of channels.
#include "operation.h"

namespace millrace::cuda {
namespace {

class Joining : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    plan_output(planner, joined_spec(planner));
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
      if (contributions_[i].tensor != kNoTensor) d_inputs_[i] = target_of(planner, binding, node_.inputs[i], contributions_[i]);
    }
  }

 protected:
  virtual MapSpec joined_spec(const Planner& planner) const = 0;
  // False when there is nothing to do in backward.
  bool begin_backward(Planner& planner) {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor) return false;
    planner.use(gradient);
    contributions_.assign(node_.inputs.size(), {});
    return true;
  }

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
      if (wants_gradient(planner, node_.inputs[i])) contributions_[i] = contribute(planner, node_.inputs[i]);
    }
    if (wants_gradient(planner, input())) contributions_[0] = contribute(planner, input(), planner.value(node_.output).gradient);
  }

  void forward(Queue& queue) override {
    with_type(y_.spec.type, [&]<class T>(T) {
      for (std::size_t i = 1; i < x_.size(); ++i) {
        Add<T> kernel;
        kernel.a = i == 1 ? x_[0].as<T>() : y_.as<T>();
        kernel.b = x_[i].as<T>();
        kernel.y = y_.as<T>();
        kernel.packs = y_.spec.packs();
        queue.run(kernel);
      }
    });
  }

  void backward(Queue& queue) override {
    for (std::size_t i = d_inputs_.size(); i-- > 0;) {
      if (!d_inputs_[i] || d_inputs_[i].map.data == dy_.data) continue;
      with_type(dy_.spec.type, [&]<class T>(T) {
        Scale<T> kernel;
        kernel.x = dy_.as<T>();
        kernel.y = d_inputs_[i].map.as<T>();
        kernel.packs = dy_.spec.packs();
        kernel.add = d_inputs_[i].add;
        queue.run(kernel);
      });
    }
  }

 protected:
  MapSpec joined_spec(const Planner& planner) const override { return planner.value(input()).spec; }
};

class Concatenation final : public Joining {
 public:
  using Joining::Joining;

  void plan_backward(Planner& planner) override {
    if (!begin_backward(planner)) return;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (wants_gradient(planner, node_.inputs[i])) contributions_[i] = contribute(planner, node_.inputs[i]);
    }
  }

  void forward(Queue& queue) override {
    if (y_.spec.pitch() != y_.spec.channels) queue.zero(y_.data, y_.spec.bytes());
    std::int64_t begin = 0;
    for (const Map& from : x_) {
      copy(queue, from, 0, y_, begin, from.spec.channels, false);
      begin += from.spec.channels;
    }
  }

  void backward(Queue& queue) override {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < d_inputs_.size(); ++i) {
      const GradientTarget& to = d_inputs_[i];
      if (to) {
        if (!to.add && to.map.spec.pitch() != to.map.spec.channels) queue.zero(to.map.data, to.map.spec.bytes());
        copy(queue, dy_, begin, to.map, 0, to.map.spec.channels, to.add);
      }
      begin += x_[i].spec.channels;
    }
  }

 protected:
  MapSpec joined_spec(const Planner& planner) const override { return output_spec(planner, planner.value(input()).spec.type); }

 private:
  static void copy(Queue& queue, const Map& from, std::int64_t from_begin, const Map& to, std::int64_t to_begin,
                   std::int64_t channels, bool add) {
    with_type(from.spec.type, [&]<class T>(T) {
      CopyChannels<T> kernel;
      kernel.from = from.as<T>();
      kernel.to = to.as<T>();
      kernel.rows = from.spec.rows();
      kernel.channels = channels;
      kernel.from_pitch = from.spec.pitch();
      kernel.from_begin = from_begin;
      kernel.to_pitch = to.spec.pitch();
      kernel.to_begin = to_begin;
      kernel.add = add;
      queue.run(kernel);
    });
  }
};

}  // namespace

std::unique_ptr<Operation> make_joining(Workshop& workshop, const Node& node) {
  if (node.kind == Node::Kind::add) return std::make_unique<Addition>(workshop, node);
  return std::make_unique<Concatenation>(workshop, node);
}

}  // namespace millrace::cuda
