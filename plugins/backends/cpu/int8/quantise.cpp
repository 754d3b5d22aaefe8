// Rounding to the grid of an int8 network, in float32.
#include "millrace/backend/int8.h"
#include "millrace/backend/map_operations.h"
#include "operation.h"

namespace millrace::cpu {
namespace {

class Quantise final : public UnaryOperation<Operation> {
 public:
  Quantise(CompileContext& compile_context, const Node& node)
      : UnaryOperation(compile_context, node), grid_(layer().as<QuantiseAttributes>()) {
    if (compile_context.type() != DataType::f32) fail(ErrorKind::usage, "a network in int8 needs the precision fp32");
  }

  void plan(Planner& planner) override {
    if (planner.training()) fail(ErrorKind::usage, "a network in int8 cannot be trained, and has no gradients");
    UnaryOperation::plan(planner);
  }
  void bind(const Planner& planner, const Binding& binding) override {
    UnaryOperation::bind(planner, binding);
    values_ = static_cast<std::int64_t>(planner.value(node_.output).spec.bytes() / sizeof(float));
  }

  // Padding stays 0.
  void forward(const Pass&) override {
    constexpr float kToInteger = 0x1.8p23F;  // x + kToInteger - kToInteger: nearest, ties to even
    const auto* const x = static_cast<const float*>(x_.data);
    auto* const y = static_cast<float*>(y_.data);
    const float scale = grid_.scale, least = grid_.least(), most = grid_.most();
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < values_; ++i) {
      const float inside = std::min(std::max(x[i] / scale, least), most);
      y[i] = scale * ((inside + kToInteger) - kToInteger);
    }
  }

 protected:
  void differentiate(const Pass&) override {}
  bool in_place() const override { return true; }

 private:
  const QuantiseAttributes& grid_;
  std::int64_t values_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_quantise(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Quantise>(compile_context, node);
}

}  // namespace millrace::cpu
