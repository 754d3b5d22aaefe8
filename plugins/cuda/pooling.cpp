// Max, average and global average pooling.
#include "millrace/error.h"
#include "operation.h"

namespace millrace::cuda {
namespace {

class Pooling final : public Operation {
 public:
  Pooling(Workshop& workshop, const Node& node) : Operation(workshop, node), max_(layer().op == "max_pool") {
    const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
    if (layer().op == "global_average_pool") {
      const Shape& from = layer().input_shapes[0];
      window_ = {narrow(from[1]), narrow(from[2]), narrow(from[1]), narrow(from[2]), 0, 0, false};
      return;
    }
    const auto& pool = layer().as<PoolAttributes>();
    window_ = {narrow(pool.kernel.height), narrow(pool.kernel.width), narrow(pool.stride.height), narrow(pool.stride.width),
               narrow(pool.padding.top),   narrow(pool.padding.left), pool.count_padding};
  }

  void plan(Planner& planner) override {
    refuse_flattened(planner);
    constexpr int kMostPlaces = 256;  // that the index of a maximum, a byte, can name
    if (max_ && window_.kernel_h * window_.kernel_w > kMostPlaces) {
      fail(ErrorKind::usage, "backend 'cuda' takes the maximum of at most {} pixels, not of {} x {}", kMostPlaces,
           window_.kernel_h, window_.kernel_w);
    }
    const MapSpec& from = planner.value(input()).spec;
    const MapSpec& to = plan_output(planner, output_spec(planner, from.type)).spec;
    planner.use(planner.value(input()).tensor);
    if (max_ && planner.training()) index_ = planner.tensor(static_cast<std::size_t>(to.rows() * to.pitch()));
    at_ = {from.n,
           static_cast<std::int32_t>(from.height),
           static_cast<std::int32_t>(from.width),
           static_cast<std::int32_t>(to.height),
           static_cast<std::int32_t>(to.width),
           static_cast<std::int32_t>(from.row_packs())};
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
    index_data_ = binding.at<std::uint8_t>(index_);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void forward(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      if (max_) {
        MaxPool<T> kernel;
        kernel.index = index_data_;
        run_forward(queue, kernel);
      } else {
        AveragePool<T> kernel;
        run_forward(queue, kernel);
      }
    });
  }

  void recompute(Queue& queue) override {
    if (max_ || !output_is_kept()) forward(queue);  // index_data_ is wanted too
  }

  void backward(Queue& queue) override {
    if (!d_input_) return;
    with_type(x_.spec.type, [&]<class T>(T) {
      if (max_) {
        MaxPoolBackward<T> kernel;
        kernel.index = index_data_;
        run_backward(queue, kernel);
      } else {
        AveragePoolBackward<T> kernel;
        run_backward(queue, kernel);
      }
    });
  }

 private:
  template <template <class> class Kernel, class T>
  void run_forward(Queue& queue, Kernel<T>& kernel) const {
    kernel.x = x_.as<T>();
    kernel.y = y_.as<T>();
    kernel.at = at_;
    kernel.window = window_;
    queue.run(kernel);
  }
  template <template <class> class Kernel, class T>
  void run_backward(Queue& queue, Kernel<T>& kernel) const {
    kernel.dy = dy_.as<T>();
    kernel.dx = d_input_.map.as<T>();
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
  std::uint8_t* index_data_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_pooling(Workshop& workshop, const Node& node) {
  return std::make_unique<Pooling>(workshop, node);
}

}  // namespace millrace::cuda
