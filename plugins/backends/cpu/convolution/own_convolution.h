// A convolution by our own kernels, with optional bias and activation. Derived kinds: depthwise, winograd, phased and
// side_by_side.
#pragma once

#include "weighted.h"

namespace millrace::cpu {

class OwnConvolution : public Operation {
 public:
  OwnConvolution(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), norm_(folded_norm(compile_context.network, node)) {}
  void plan(Planner& planner) final;
  void plan_backward(Planner& planner) final;
  void bind(const Planner& planner, const Binding& binding) final;
  void forward(const Pass& pass) final;
  void recompute(const Pass& pass) final;
  void backward(const Pass& pass) final;

 protected:
  // Request scratch memory; each is called where it is used.
  virtual void plan_forward(Planner&) {}
  virtual void plan_weights(Planner&) {}
  virtual void plan_data(Planner&) {}
  virtual void bind_scratch(const Binding&) {}

  // In replicas that only predict: the weights as convolve() reads them, prepared once, with the normalisation. Null if a kind
  // has no such form: it computes the normalisation afterwards.
  virtual PreparedWeights* prepare() { return nullptr; }

  virtual void convolve(const Map& x, const float* bias, bool relu, const Map& y) = 0;
  virtual void convolve_backward_weights(const Map& x, const Map& dy, float* d_weights) = 0;
  virtual void convolve_backward_data(const Map& dy, const Map& dx) = 0;

  const PreparedWeights* prepared() const { return prepared_; }
  const Layer* norm() const { return norm_; }
  const ConvAttributes& conv() const { return layer().as<ConvAttributes>(); }

 private:
  bool has_bias() const { return layer().parameters.size() > 1; }
  bool is(Activation activation) const { return node_.activation == activation; }
  // False if forward's output is still present and nothing else is needed.
  bool computes_forward() const { return !output_is_kept() || is(Activation::gelu); }

  void finish() const;

  const Layer* const norm_;              // after the convolution, in replicas that only predict; null: none
  PreparedWeights* prepared_ = nullptr;  // with that normalisation
  TensorId before_ = kNoTensor;          // input of gelu
  Planner::Contribution contribution_;
  GradientTarget d_input_;
  std::vector<float> zeros_;  // by channel, for finish()
  Map x_, residual_, sums_, y_, dy_;
  bool has_gradient_ = false;
};

// ---- Checks (primitive_checks.h) ----
// One pass of a node's convolution, on one sample per thread. Weights are float32 in the network's order.
struct OwnTrial : Trial {
  std::string text;  // one line
  MapSpec input, output;
  Map x_map(const TrialMemory& memory) const { return input.map(memory.x); }
  Map y_map(const TrialMemory& memory) const { return output.map(memory.y); }
};
OwnTrial own_trial(const CompileContext& compile_context, const Node& node, WindowOperand result);
constexpr WindowOperand kPassesOfTrials[] = {WindowOperand::y, WindowOperand::x, WindowOperand::w};

// True if the kind is preferred for this node and computes correctly; make_convolution() calls these.
bool takes_own_depthwise(const CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_own_depthwise(CompileContext& compile_context, const Node& node);
bool takes_winograd(const CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_winograd(CompileContext& compile_context, const Node& node);
bool takes_phases(const CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_phased(CompileContext& compile_context, const Node& node);
bool takes_side_by_side(const CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_side_by_side(CompileContext& compile_context, const Node& node);

}  // namespace millrace::cpu
