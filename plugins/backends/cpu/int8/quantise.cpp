// Rounding of activations, and operations that pass integers on: addition and max pooling.
#include "int8/int8_plan.h"
#include "operation.h"

namespace millrace::cpu {
namespace {

// With VNNI makes integers, and float32 where an operation reads that; else float32 on the grid.
class Quantise final : public Operation {
 public:
  Quantise(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), int8_(*compile_context.int8), grid_(layer().as<QuantiseAttributes>()) {}

  void plan(Planner& planner) override {
    const Value& from = planner.value(input());
    const MapSpec spec = from.spec;
    planner.use(from.tensor);
    Value& to = planner.value(node_.output);
    to.spec = spec;
    if (int8_.has(node_.output)) int8_.plan(planner, node_.output, spec);
    if (int8_.needs_floats(node_.output)) to.tensor = planner.tensor(spec.bytes());
  }
  void plan_backward(Planner&) override { fail(ErrorKind::usage, "a network in int8 has no gradients"); }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    floats_ = static_cast<std::int64_t>(planner.value(node_.output).spec.bytes() / sizeof(float));
    if (int8_.has(node_.output)) integers_ = int8_.bind(binding, node_.output);
  }

  void forward(const Pass&) override {
    if (integers_.data == nullptr) return round_floats();
    to_integers(x_, integers_);
    if (y_.data != nullptr) from_integers(integers_, y_);
  }
  void backward(const Pass&) override {}

 private:
  // Padding stays 0.
  void round_floats() {
    const auto* const x = static_cast<const float*>(x_.data);
    auto* const y = static_cast<float*>(y_.data);
    const float scale = grid_.scale, least = grid_.least(), most = grid_.most();
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < floats_; ++i) {
      const float inside = std::min(std::max(x[i] / scale, least), most);
      y[i] = scale * ((inside + kNearest) - kNearest);
    }
  }

  Int8Plan& int8_;
  const QuantiseAttributes& grid_;
  Map x_, y_;
  Int8Values integers_;
  std::int64_t floats_ = 0;
};

// Common base of operations from integers to integers.
class OfIntegers : public Operation {
 public:
  OfIntegers(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), int8_(*compile_context.int8) {}

  void plan(Planner& planner) final {
    for (const LayerPort from : node_.inputs) int8_.use(planner, from);
    const MapSpec to = MapSpec::of(output_shape(), planner.value(input()).spec.n, DataType::f32, compile_context_.layout);
    if (int8_.needs_floats(node_.output))
      plan_output(planner, DataType::f32);
    else
      planner.value(node_.output).spec = to;
    int8_.plan(planner, node_.output, to);
    samples_ = to.n;
  }
  void plan_backward(Planner&) final { fail(ErrorKind::usage, "a network in int8 has no gradients"); }
  void bind(const Planner& planner, const Binding& binding) final {
    x_.clear();
    for (const LayerPort from : node_.inputs) x_.push_back(int8_.bind(binding, from));
    y_ = int8_.bind(binding, node_.output);
    floats_ = map_of(planner, binding, node_.output);
  }
  void forward(const Pass&) final {
    compute();
    if (floats_.data != nullptr) from_integers(y_, floats_);
  }
  void backward(const Pass&) final {}
  std::string detail() const final { return "int8"; }

 protected:
  virtual void compute() = 0;

  Int8Plan& int8_;
  std::int64_t samples_ = 0;
  std::vector<Int8Values> x_;
  Int8Values y_;

 private:
  Map floats_;
};

class Int8Addition final : public OfIntegers {
 public:
  using OfIntegers::OfIntegers;

 private:
  void compute() override {
    add_integers(x_[0], x_[1], node_.activation == Activation::relu, y_, samples_ * output_shape().elements());
  }
};

class Int8MaxPool final : public OfIntegers {
 public:
  using OfIntegers::OfIntegers;

 private:
  void compute() override {
    if (y_.is_signed)
      pool(static_cast<const std::int8_t*>(x_[0].data), static_cast<std::int8_t*>(y_.data));
    else
      pool(static_cast<const std::uint8_t*>(x_[0].data), static_cast<std::uint8_t*>(y_.data));
  }

  template <class Integer>
  void pool(const Integer* x, Integer* y) const {
    const PoolWindow window = pool_window(layer().as<PoolAttributes>());
    const Shape &from = layer().input_shapes[0], &to = output_shape();
    const std::int64_t channels = from[0], rows = samples_ * to[1];
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t n = row / to[1], top = row % to[1] * window.stride_height - window.top;
      for (std::int64_t column = 0; column < to[2]; ++column) {
        const std::int64_t left = column * window.stride_width - window.left;
        Integer* const out = y + (row * to[2] + column) * channels;
        std::fill(out, out + channels, std::numeric_limits<Integer>::min());
        for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + window.kernel_height, from[1]); ++h) {
          for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + window.kernel_width, from[2]); ++w) {
            const Integer* const in = x + ((n * from[1] + h) * from[2] + w) * channels;
#pragma omp simd
            for (std::int64_t c = 0; c < channels; ++c) out[c] = std::max(out[c], in[c]);
          }
        }
      }
    }
  }
};

}  // namespace

std::unique_ptr<Operation> make_quantise(CompileContext& compile_context, const Node& node) {
  if (compile_context.type() != DataType::f32 || compile_context.int8 == nullptr)
    fail(ErrorKind::usage, "a network in int8 is for inference in the precision fp32 alone");
  return std::make_unique<Quantise>(compile_context, node);
}

std::unique_ptr<Operation> make_of_integers(CompileContext& compile_context, const Node& node) {
  if (node.kind == Node::Kind::add) return std::make_unique<Int8Addition>(compile_context, node);
  return std::make_unique<Int8MaxPool>(compile_context, node);
}

}  // namespace millrace::cpu
