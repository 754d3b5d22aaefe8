// One map in, one map out: activations that were not fused, dropout, scale, softmax, flatten, local response normalisation and
// pooling.
#include "millrace/backend/map_operations.h"

#include "operation.h"

namespace millrace::cuda {
namespace {

using Unary = UnaryOperation<Operation>;

// y = factor * x.
class Scaling final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override { run(queue, x_, y_, false); }

 protected:
  void differentiate(Queue& queue) override { run(queue, dy_, d_input_.map, d_input_.add); }
  bool in_place() const override { return true; }

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
      kernel.from = needs_output() ? y_.as<T>() : x_.as<T>();
      kernel.dy = dy_.as<T>();
      kernel.dx = d_input_.map.as<T>();
      kernel.packs = x_.spec.packs();
      kernel.kind = node_.activation;
      kernel.add = d_input_.add;
      queue.run(kernel);
    });
  }
  bool needs_input() const override { return !needs_output(); }
  bool needs_output() const override { return node_.activation == Activation::relu; }
  bool in_place() const override { return true; }
};

class Dropping final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    if (learns_) {
      run(queue, x_, y_, false);
    } else if (x_.data != y_.data) {
      queue.copy(y_.data, x_.data, x_.spec.bytes());
    }
  }

 protected:
  void differentiate(Queue& queue) override { run(queue, dy_, d_input_.map, d_input_.add); }
  bool in_place() const override { return true; }

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
  bool in_place() const override { return true; }
};

class LrnOperation final : public Unary {
 public:
  using Unary::Unary;
  void plan(Planner& planner) override {
    Unary::plan(planner);
    const MapSpec& spec = planner.value(input()).spec;
    if (learns_) s_at_ = planner.tensor(static_cast<std::size_t>(spec.rows() * spec.pitch()) * sizeof(float));
  }
  void plan_backward(Planner& planner) override {
    Unary::plan_backward(planner);
    if (has_gradient()) planner.use(s_at_);
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

 private:
  TensorId s_at_ = kNoTensor;
  float* s_ = nullptr;
};

class Pooling final : public Unary {
 public:
  Pooling(CompileContext& compile_context, const Node& node) : Unary(compile_context, node), max_(layer().op == "max_pool") {
    if (layer().op == "global_average_pool") {
      const Shape& from = layer().input_shapes[0];
      const auto height = static_cast<std::int32_t>(from[1]), width = static_cast<std::int32_t>(from[2]);
      window_ = {height, width, height, width, 0, 0, false};
      return;
    }
    window_ = window_of(layer().as<PoolAttributes>());
  }

  void plan(Planner& planner) override {
    Unary::plan(planner);
    const MapSpec& to = planner.value(node_.output).spec;
    at_ = extents_of(planner.value(input()).spec, to);
    if (!max_ || !planner.training()) return;
    index_ = planner.tensor(static_cast<std::size_t>(to.rows() * to.pitch()) * (wide() ? sizeof(std::int32_t) : 1));
  }
  void plan_backward(Planner& planner) override {
    Unary::plan_backward(planner);
    if (max_ && has_gradient()) planner.use(index_);
  }
  void bind(const Planner& planner, const Binding& binding) override {
    Unary::bind(planner, binding);
    index_data_ = binding.at(index_);
  }

  void forward(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      if (!max_)
        run_forward(queue, AveragePool<T>());
      else if (wide())
        run_forward(queue, with_index(WideMaxPool<T>()));
      else
        run_forward(queue, with_index(MaxPool<T>()));
    });
  }

  void recompute(Queue& queue) override {
    if (max_ || !output_is_kept()) forward(queue);  // index_data_ is needed too
  }

  void differentiate(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      if (!max_)
        run_backward(queue, AveragePoolBackward<T>());
      else if (wide())
        run_backward(queue, with_index(WideMaxPoolBackward<T>()));
      else
        run_backward(queue, with_index(MaxPoolBackward<T>()));
    });
  }

 private:
  bool wide() const { return std::int64_t{window_.kernel_h} * window_.kernel_w > kNarrowPlaces; }
  template <class Kernel>
  Kernel with_index(Kernel kernel) const {
    kernel.index = static_cast<decltype(kernel.index)>(index_data_);
    return kernel;
  }
  template <class Kernel>
  void run_forward(Queue& queue, Kernel kernel) const {
    kernel.x = static_cast<decltype(kernel.x)>(x_.data);
    kernel.y = static_cast<decltype(kernel.y)>(y_.data);
    kernel.at = at_;
    kernel.window = window_;
    queue.run(kernel);
  }
  template <class Kernel>
  void run_backward(Queue& queue, Kernel kernel) const {
    kernel.dy = static_cast<decltype(kernel.dy)>(dy_.data);
    kernel.dx = static_cast<decltype(kernel.dx)>(d_input_.map.data);
    kernel.at = at_;
    kernel.window = window_;
    kernel.add = d_input_.add;
    queue.run(kernel);
  }

  bool max_;
  PoolWindow window_;
  PoolExtents at_;
  TensorId index_ = kNoTensor;
  void* index_data_ = nullptr;  // type chosen by wide()
};

}  // namespace

std::unique_ptr<Operation> make_unary(CompileContext& compile_context, const Node& node) {
  switch (node.kind) {
    case Node::Kind::activate: return std::make_unique<Activating>(compile_context, node);
    case Node::Kind::dropout: return std::make_unique<Dropping>(compile_context, node);
    case Node::Kind::softmax: return std::make_unique<SoftmaxOperation>(compile_context, node);
    case Node::Kind::lrn: return std::make_unique<LrnOperation>(compile_context, node);
    case Node::Kind::pool: return std::make_unique<Pooling>(compile_context, node);
    case Node::Kind::flatten: return std::make_unique<Flattening>(compile_context, node);
    default: return std::make_unique<Scaling>(compile_context, node);
  }
}

}  // namespace millrace::cuda
