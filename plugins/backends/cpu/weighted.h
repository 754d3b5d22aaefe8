// Common base of convolutions and linear layers: weights, optional bias and activation, and three oneDNN primitives: forward,
// backward to the input, backward to the weights.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "folding.h"
#include "operand.h"
#include "window_sum.h"

namespace millrace::cpu {

class Weighted : public Operation {
 public:
  Weighted(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), norm_(folded_norm(compile_context.network, node)) {}
  void plan(Planner& planner) final;
  void plan_backward(Planner& planner) final;
  void bind(const Planner& planner, const Binding& binding) final;
  void forward(const Pass& pass) final;
  void recompute(const Pass& pass) final;
  void backward(const Pass& pass) final;
  std::string detail() const final;

 protected:
  using Desc = dnnl::memory::desc;
  using PrimitiveDesc = dnnl::primitive_desc_base;

  // The layer, its algorithm and its windows, without a pass and without descs.
  virtual WindowSum sum() const = 0;
  // The implementation, excluding those known to be wrong; it may change the algorithm. Throws dnnl::error if there is none.
  virtual PrimitiveDesc choose(WindowSum& sum) const { return compile_context_.checks.describe(compile_context_.engine, sum); }
  virtual Desc canonical_weights() const = 0;  // float32, in the network's order
  virtual Desc source_desc(const MapSpec& input) const = 0;
  virtual Desc destination_desc(const MapSpec& output) const = 0;
  virtual DataType output_type(const Planner& planner) const = 0;
  virtual bool is_slow(const PrimitiveDesc& chosen) const = 0;
  // oneDNN is slow at bias and activation: our kernels add them and sum the bias gradient.
  virtual bool finishes_apart() const { return false; }

  bool training() const { return training_; }
  std::int64_t samples() const { return samples_; }
  bool has_bias() const { return norm_ != nullptr || layer().parameters.size() > 1; }
  dnnl::prop_kind forward_kind() const {
    return training_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  }

 private:
  using Change = Desc (*)(const Desc& operand);
  struct Choice {
    WindowSum sum;
    PrimitiveDesc desc;
  };
  // A primitive with its operands. Backward reads or writes the gradients of some instead.
  struct Product {
    Step step;
    Operand source, weights, destination;

    explicit operator bool() const { return static_cast<bool>(step); }
    void bind(const Binding& binding, const dnnl::engine& engine, void* sources, void* filters, void* results);
  };
  WindowSum sum_of(WindowSum::Pass pass, const Desc& source, const Desc& weights, const Desc& destination) const;
  // The first option that is not slow: for the operands' layouts, for layouts of oneDNN's choice, and for such layouts in
  // float32. If all are slow, the first. Throws dnnl::error if there is none.
  Choice first_fast(const WindowSum& sum, std::initializer_list<Change> changes) const;
  // The same, repeated until it computes correctly.
  PrimitiveDesc first_right(const WindowSum& sum, std::initializer_list<Change> changes) const;
  // In the network's type. Empty if all are wrong.
  std::optional<Choice> in_own_type(const WindowSum& sum, std::initializer_list<Change> changes) const;
  // In replicas that only predict, with the addition and ReLU after it. Empty if none is fast and right, or none follows.
  std::optional<Choice> with_rest(Planner& planner, WindowSum sum);
  void choose_forward(Planner& planner, const Value& output);
  void plan_data(Planner& planner);
  void plan_weights(Planner& planner);
  Desc computed_destination(const Planner& planner) const;
  bool sums_bias_apart() const { return finishes_apart() || node_.activation != Activation::none; }
  bool sums_apart() const { return finishes_apart() || (node_.residual != kNoResidual && !fuses_); }
  const float* bias() const { return folded_ != nullptr ? folded_->bias : value(1); }
  void finish() const;
  // False if forward's output is still present and nothing else is needed.
  bool computes_forward() const { return !output_is_kept() || node_.activation == Activation::gelu; }

  const Layer* const norm_;            // folded into the weights; null: none
  PreparedWeights* folded_ = nullptr;  // its weights
  bool training_ = false;
  bool fuses_ = false;  // forward's primitive adds the residual and applies the ReLU
  std::int64_t samples_ = 0;
  TensorId before_ = kNoTensor;                      // input of gelu
  Product forward_, data_, weights_;                 // forward; backward to the input; backward to the weights
  std::unordered_map<int, dnnl::memory> arguments_;  // of forward
  dnnl::memory d_bias_;
  std::vector<float> zeros_;  // by channel, for finish()
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  Map residual_, pre_activation_, output_, d_output_;
  bool has_gradient_ = false;
};

std::unique_ptr<Operation> make_convolution(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_linear(CompileContext& compile_context, const Node& node);

}  // namespace millrace::cpu
