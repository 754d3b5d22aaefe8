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
      queue.run(Scale<T>{.x = from.as<T>(),
                         .y = to.as<T>(),
                         .packs = from.spec.packs(),
                         .factor = static_cast<float>(layer().as<ScaleAttributes>().factor),
                         .add = add});
    });
  }
};

// The vector has the network's order, (C, H, W), for any reader. A map of one pixel has it already.
class Flattening final : public Unary {
 public:
  using Unary::Unary;
  void forward(Queue& queue) override {
    if (x_.data == y_.data) return;
    with_type(x_.spec.type, [&]<class T>(T) { queue.run(Flatten<T>{.x = x_.as<T>(), .y = y_.as<T>(), .at = extents()}); });
  }

 protected:
  void differentiate(Queue& queue) override {
    if (dy_.data == d_input_.map.data) return;
    with_type(x_.spec.type, [&]<class T>(T) {
      queue.run(FlattenBackward<T>{.dy = dy_.as<T>(), .dx = d_input_.map.as<T>(), .at = extents(), .add = d_input_.add});
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
      queue.run(Activate<T>{.x = x_.as<T>(), .y = y_.as<T>(), .packs = x_.spec.packs(), .kind = node_.activation});
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      queue.run(ActivateBackward<T>{.from = needs_output() ? y_.as<T>() : x_.as<T>(),
                                    .dy = dy_.as<T>(),
                                    .dx = d_input_.map.as<T>(),
                                    .packs = x_.spec.packs(),
                                    .kind = node_.activation,
                                    .add = d_input_.add});
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
      Dropout<T> kernel{.x = from.as<T>(),
                        .y = to.as<T>(),
                        .n = from.spec.n,
                        .pixels = from.spec.height * from.spec.width,
                        .channels = from.spec.channels,
                        .seed = compile_context_.options.seed,
                        .layer = static_cast<std::uint32_t>(node_.layer)};
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
      queue.run(Softmax<T>{.x = x_.as<T>(), .y = y_.as<T>(), .rows = x_.spec.rows(), .channels = x_.spec.channels});
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      queue.run(SoftmaxBackward<T>{.y = y_.as<T>(),
                                   .dy = dy_.as<T>(),
                                   .dx = d_input_.map.as<T>(),
                                   .rows = x_.spec.rows(),
                                   .channels = x_.spec.channels,
                                   .add = d_input_.add});
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
      queue.run(Lrn<T>{.x = x_.as<T>(),
                       .y = y_.as<T>(),
                       .s = s_,
                       .rows = x_.spec.rows(),
                       .packs = x_.spec.row_packs(),
                       .window = static_cast<std::int32_t>(lrn.size),
                       .alpha = static_cast<float>(lrn.alpha),
                       .beta = static_cast<float>(lrn.beta),
                       .k = static_cast<float>(lrn.k)});
    });
  }

 protected:
  void differentiate(Queue& queue) override {
    const auto& lrn = layer().as<LrnAttributes>();
    with_type(x_.spec.type, [&]<class T>(T) {
      queue.run(LrnBackward<T>{.x = x_.as<T>(),
                               .dy = dy_.as<T>(),
                               .s = s_,
                               .dx = d_input_.map.as<T>(),
                               .rows = x_.spec.rows(),
                               .packs = x_.spec.row_packs(),
                               .window = static_cast<std::int32_t>(lrn.size),
                               .alpha = static_cast<float>(lrn.alpha),
                               .beta = static_cast<float>(lrn.beta),
                               .add = d_input_.add});
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
