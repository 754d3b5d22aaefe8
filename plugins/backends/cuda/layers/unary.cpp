// One map in, one map out: activations that were not fused, dropout, scale, softmax, flatten and local response normalisation.
#include "operation.h"

namespace millrace::cuda {
namespace {

class Unary : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    training_ = planner.training();
    const Value& from = planner.value(input());
    plan_output(planner, from.spec.type, in_place() ? input() : kNoResidual);
    planner.use(from.tensor);
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !wants_gradient(planner, input())) return;
    planner.use(gradient);
    if (needs_input()) planner.use(planner.value(input()).tensor);
    if (needs_output()) planner.use(planner.value(node_.output).tensor);
    contribution_ = contribute(planner, input(), in_place() ? gradient : kNoTensor);
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void backward(Queue& queue) override {
    if (d_input_) differentiate(queue);
  }

 protected:
  virtual void differentiate(Queue& queue) = 0;       // dy_ -> d_input_
  virtual bool needs_input() const { return false; }  // by backward
  virtual bool needs_output() const { return false; }
  virtual bool in_place() const { return true; }  // output and input, or their gradients, may share memory

  bool training_ = false;
  Map x_, y_, dy_;
  GradientTarget d_input_;

 private:
  Planner::Contribution contribution_;
};

// y = factor * x.
class Scaling final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override { run(queue, x_, y_, false); }

 protected:
  void differentiate(Queue& queue) override { run(queue, dy_, d_input_.map, d_input_.add); }

 private:
  void run(Queue& queue, const Map& from, const Map& to, bool add) const {
    with_type(from.spec.type, [&]<class T>(T) {
      Scale<T> kernel;
      kernel.x = from.as<T>();
      kernel.y = to.as<T>();
      kernel.packs = from.spec.packs();
      kernel.factor = static_cast<float>(layer().as<ScaleAttributes>().factor);
      kernel.add = add;
      queue.run(kernel);
    });
  }
};

// The vector has the network's order, (C, H, W), for any reader. A map of one pixel has it already.
class Flattening final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    if (x_.data == y_.data) return;
    with_type(x_.spec.type, [&]<class T>(T) {
      Flatten<T> kernel;
      kernel.x = x_.as<T>();
      kernel.y = y_.as<T>();
      kernel.at = extents();
      queue.run(kernel);
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    if (dy_.data == d_input_.map.data) return;
    with_type(x_.spec.type, [&]<class T>(T) {
      FlattenBackward<T> kernel;
      kernel.dy = dy_.as<T>();
      kernel.dx = d_input_.map.as<T>();
      kernel.at = extents();
      kernel.add = d_input_.add;
      queue.run(kernel);
    });
  }
  bool in_place() const override {
    const Shape& from = layer().input_shapes[0];
    return from.elements() == from[0];
  }

 private:
  FlattenExtents extents() const { return {x_.spec.n, x_.spec.height * x_.spec.width, x_.spec.channels}; }
};

class Activating final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      Activate<T> kernel;
      kernel.x = x_.as<T>();
      kernel.y = y_.as<T>();
      kernel.packs = x_.spec.packs();
      kernel.kind = node_.activation;
      queue.run(kernel);
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      ActivateBackward<T> kernel;
      kernel.from = node_.activation == Activation::relu ? y_.as<T>() : x_.as<T>();
      kernel.dy = dy_.as<T>();
      kernel.dx = d_input_.map.as<T>();
      kernel.packs = x_.spec.packs();
      kernel.kind = node_.activation;
      kernel.add = d_input_.add;
      queue.run(kernel);
    });
  }
  bool needs_input() const override { return node_.activation != Activation::relu; }
  bool needs_output() const override { return node_.activation == Activation::relu; }
};

class Dropping final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    if (training_) {
      run(queue, x_, y_, false);
    } else if (x_.data != y_.data) {
      queue.copy(y_.data, x_.data, x_.spec.bytes());
    }
  }

 protected:
  void differentiate(Queue& queue) override { run(queue, dy_, d_input_.map, d_input_.add); }

 private:
  void run(Queue& queue, const Map& from, const Map& to, bool add) const {
    with_type(from.spec.type, [&]<class T>(T) {
      Dropout<T> kernel;
      kernel.x = from.as<T>();
      kernel.y = to.as<T>();
      kernel.n = from.spec.n;
      kernel.pixels = from.spec.height * from.spec.width;
      kernel.channels = from.spec.channels;
      kernel.seed = compile_context_.options.seed;
      kernel.layer = static_cast<std::uint32_t>(node_.layer);
      const auto& drops = layer().as<DropoutAttributes>();
      kernel.probability = drops.probability;
      kernel.by_channel = drops.by_channel;
      kernel.by_pixel = drops.by_pixel;
      kernel.scalars = compile_context_.scalars;
      kernel.add = add;
      queue.run(kernel);
    });
  }
};

class SoftmaxOperation final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      Softmax<T> kernel;
      kernel.x = x_.as<T>();
      kernel.y = y_.as<T>();
      kernel.rows = x_.spec.rows();
      kernel.channels = x_.spec.channels;
      queue.run(kernel);
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      SoftmaxBackward<T> kernel;
      kernel.y = y_.as<T>();
      kernel.dy = dy_.as<T>();
      kernel.dx = d_input_.map.as<T>();
      kernel.rows = x_.spec.rows();
      kernel.channels = x_.spec.channels;
      kernel.add = d_input_.add;
      queue.run(kernel);
    });
  }
  bool needs_output() const override { return true; }
};

class LrnOperation final : public Unary {
 public:
  using Unary::Unary;
  void plan(Planner& planner) override {
    Unary::plan(planner);
    const MapSpec& spec = planner.value(input()).spec;
    if (training_) s_at_ = planner.tensor(static_cast<std::size_t>(spec.rows() * spec.pitch()) * sizeof(float));
  }
  void plan_backward(Planner& planner) override {
    Unary::plan_backward(planner);
    if (planner.value(node_.output).gradient != kNoTensor) planner.use(s_at_);
  }
  void bind(const Planner& planner, const Binding& binding) override {
    Unary::bind(planner, binding);
    s_ = binding.at<float>(s_at_);
  }
  void recompute(Queue& queue) override { forward(queue); }  // for s_, whether or not the output is kept
  void forward(Queue& queue) override {
    const auto& lrn = layer().as<LrnAttributes>();
    with_type(x_.spec.type, [&]<class T>(T) {
      Lrn<T> kernel;
      kernel.x = x_.as<T>();
      kernel.y = y_.as<T>();
      kernel.s = s_;
      kernel.rows = x_.spec.rows();
      kernel.packs = x_.spec.row_packs();
      kernel.window = static_cast<std::int32_t>(lrn.size);
      kernel.alpha = static_cast<float>(lrn.alpha);
      kernel.beta = static_cast<float>(lrn.beta);
      kernel.k = static_cast<float>(lrn.k);
      queue.run(kernel);
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    const auto& lrn = layer().as<LrnAttributes>();
    with_type(x_.spec.type, [&]<class T>(T) {
      LrnBackward<T> kernel;
      kernel.x = x_.as<T>();
      kernel.dy = dy_.as<T>();
      kernel.s = s_;
      kernel.dx = d_input_.map.as<T>();
      kernel.rows = x_.spec.rows();
      kernel.packs = x_.spec.row_packs();
      kernel.window = static_cast<std::int32_t>(lrn.size);
      kernel.alpha = static_cast<float>(lrn.alpha);
      kernel.beta = static_cast<float>(lrn.beta);
      kernel.add = d_input_.add;
      queue.run(kernel);
    });
  }
  bool needs_input() const override { return true; }
  bool in_place() const override { return false; }

 private:
  TensorId s_at_ = kNoTensor;
  float* s_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_unary(CompileContext& compile_context, const Node& node) {
  switch (node.kind) {
    case Node::Kind::activate: return std::make_unique<Activating>(compile_context, node);
    case Node::Kind::dropout: return std::make_unique<Dropping>(compile_context, node);
    case Node::Kind::softmax: return std::make_unique<SoftmaxOperation>(compile_context, node);
    case Node::Kind::lrn: return std::make_unique<LrnOperation>(compile_context, node);
    case Node::Kind::flatten: return std::make_unique<Flattening>(compile_context, node);
    default: return std::make_unique<Scaling>(compile_context, node);
  }
}

}  // namespace millrace::cuda
