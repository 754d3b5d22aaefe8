// Max, average and global average pooling.
#include "simple_operations.h"

namespace millrace::cpu {
namespace {

class Pooling final : public Operation {
 public:
  Pooling(CompileContext& compile_context, const Node& node) : Operation(compile_context, node), max_(layer().op == "max_pool") {
    if (layer().op == "global_average_pool") {
      const Shape& from = layer().input_shapes[0];
      window_ = {from[1], from[2], from[1], from[2], 0, 0, false};
    } else {
      window_ = pool_window(layer().as<PoolAttributes>());
    }
  }

  void plan(Planner& planner) override {
    const Value& output = plan_output(planner, planner.value(input()).spec.type);
    planner.use(planner.value(input()).tensor);
    if (max_ && planner.training()) index_ = planner.tensor(index_bytes(output.spec, window_));
  }

  void plan_backward(Planner& planner) override {
    const TensorId gradient = planner.value(node_.output).gradient;
    if (gradient == kNoTensor || !planner.value(input()).needs_gradient) return;
    planner.use(gradient);
    if (max_) planner.use(index_);
    contribution_ = planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    index_data_ = binding.at(index_);
    if (contribution_.tensor == kNoTensor) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_input_ = target_of(planner, binding, input(), contribution_);
  }

  void forward(const Pass&) override {
    if (max_)
      kernels().max_pool(window_, x_, y_, index_data_, nullptr, nullptr);
    else
      kernels().average_pool(window_, x_, y_);
  }

  void recompute(const Pass& pass) override {
    if (max_ || !output_is_kept()) forward(pass);  // index_data_ is needed too
  }

  void backward(const Pass&) override {
    if (!d_input_) return;
    if (max_)
      kernels().max_pool_backward(window_, index_data_, dy_, d_input_.written);
    else
      kernels().average_pool_backward(window_, dy_, d_input_.written);
    d_input_.finish();
  }

 private:
  bool max_;
  PoolWindow window_;
  TensorId index_ = kNoTensor;
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map x_, y_, dy_;
  void* index_data_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_pooling(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Pooling>(compile_context, node);
}

PoolWindow pool_window(const PoolAttributes& pool) {
  return {pool.kernel.height, pool.kernel.width, pool.stride.height, pool.stride.width,
          pool.padding.top,   pool.padding.left, pool.count_padding};
}

}  // namespace millrace::cpu
