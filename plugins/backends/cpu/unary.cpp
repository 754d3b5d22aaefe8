// One map in, one map out: activations that were not fused, dropout, scale, flatten, local response normalisation and pooling.
#include "kernels/dropout.h"
#include "kernels/rearrange.h"
#include "millrace/backend/map_operations.h"
#include "operation.h"

namespace millrace::cpu {
namespace {

using Unary = UnaryOperation<Operation>;

class Activate final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass&) override { kernels().activate(node_.activation, x_, y_); }

 protected:
  void differentiate(const Pass&) override {
    kernels().activate_backward(node_.activation, needs_output() ? y_ : x_, dy_, &d_input_.written, nullptr);
  }
  bool needs_input() const override { return !needs_output(); }
  bool needs_output() const override { return node_.activation == Activation::relu; }
  bool in_place() const override { return true; }
};

class Dropout final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass& pass) override { drop(pass, x_, y_); }

 protected:
  void differentiate(const Pass& pass) override { drop(pass, dy_, d_input_.written); }
  bool in_place() const override { return true; }

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
  void differentiate(const Pass&) override { kernels().scale(factor(), dy_, d_input_.written); }
  bool in_place() const override { return true; }

 private:
  float factor() const { return static_cast<float>(layer().as<ScaleAttributes>().factor); }
};

class Flatten final : public Unary {
 public:
  using Unary::Unary;
  void forward(const Pass&) override { to_plain(x_, y_.data); }

 protected:
  void differentiate(const Pass&) override { from_plain(dy_.data, d_input_.written); }
};

class Lrn final : public Unary {
 public:
  Lrn(CompileContext& compile_context, const Node& node) : Unary(compile_context, node) {
    const auto& lrn = layer().as<LrnAttributes>();
    window_ = {lrn.size, static_cast<float>(lrn.alpha), static_cast<float>(lrn.beta), static_cast<float>(lrn.k)};
  }
  void forward(const Pass&) override { kernels().lrn(window_, x_, y_); }

 protected:
  void differentiate(const Pass&) override { kernels().lrn_backward(window_, x_, dy_, d_input_.written); }
  bool needs_input() const override { return true; }

 private:
  LrnWindow window_;
};

class Pooling final : public Unary {
 public:
  Pooling(CompileContext& compile_context, const Node& node) : Unary(compile_context, node), max_(layer().op == "max_pool") {
    if (layer().op == "global_average_pool") {
      const Shape& from = layer().input_shapes[0];
      window_ = {from[1], from[2], from[1], from[2], 0, 0, false};
    } else {
      window_ = pool_window(layer().as<PoolAttributes>());
    }
  }

  void plan(Planner& planner) override {
    Unary::plan(planner);
    if (max_ && planner.training()) index_ = planner.tensor(index_bytes(planner.value(node_.output).spec, window_));
  }
  void plan_backward(Planner& planner) override {
    Unary::plan_backward(planner);
    if (max_ && has_gradient()) planner.use(index_);
  }
  void bind(const Planner& planner, const Binding& binding) override {
    Unary::bind(planner, binding);
    index_data_ = binding.at(index_);
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

 protected:
  void differentiate(const Pass&) override {
    if (max_)
      kernels().max_pool_backward(window_, index_data_, dy_, d_input_.written);
    else
      kernels().average_pool_backward(window_, dy_, d_input_.written);
  }

 private:
  bool max_;
  PoolWindow window_;
  TensorId index_ = kNoTensor;
  void* index_data_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_unary(CompileContext& compile_context, const Node& node) {
  switch (node.kind) {
    case Node::Kind::activate: return std::make_unique<Activate>(compile_context, node);
    case Node::Kind::dropout: return std::make_unique<Dropout>(compile_context, node);
    case Node::Kind::flatten: return std::make_unique<Flatten>(compile_context, node);
    case Node::Kind::lrn: return std::make_unique<Lrn>(compile_context, node);
    case Node::Kind::pool: return std::make_unique<Pooling>(compile_context, node);
    default: return std::make_unique<Scale>(compile_context, node);
  }
}

}  // namespace millrace::cpu
