// Max, average and global average pooling.
#include "operation.h"
#include "pool_spec.h"

namespace millrace::cuda {
namespace {

class Pooling final : public Operation {
 public:
  Pooling(CompileContext& compile_context, const Node& node) : Operation(compile_context, node), max_(layer().op == "max_pool") {
    if (layer().op == "global_average_pool") {
      const Shape& from = layer().input_shapes[0];
      const auto height = static_cast<std::int32_t>(from[1]), width = static_cast<std::int32_t>(from[2]);
      window_ = {height, width, height, width, 0, 0, false};
      return;
    }
    window_ = window_of(layer().as<PoolAttributes>());
  }

  void plan(Planner& planner) override {
    const MapSpec& from = planner.value(input()).spec;
    const MapSpec& to = plan_output(planner, from.type).spec;
    planner.use(planner.value(input()).tensor);
    if (max_ && planner.training()) {
      index_ = planner.tensor(static_cast<std::size_t>(to.rows() * to.pitch()) * (wide() ? sizeof(std::int32_t) : 1));
    }
    at_ = extents_of(from, to);
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !wants_gradient(planner, input())) return;
    planner.use(gradient);
    if (max_) planner.use(index_);
    contribution_ = contribute(planner, input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    index_data_ = binding.at(index_);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
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

  void backward(Queue& queue) override {
    if (!d_input_) return;
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
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map x_, y_, dy_;
  void* index_data_ = nullptr;  // type chosen by wide()
};

}  // namespace

std::unique_ptr<Operation> make_pooling(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Pooling>(compile_context, node);
}

}  // namespace millrace::cuda
