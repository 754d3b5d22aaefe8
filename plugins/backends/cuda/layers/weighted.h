// Common base of convolutions and linear layers: a library computes them, with a bias and an activation after.
#pragma once

#include "operation.h"
#include "sums.h"

namespace millrace::cuda {

class Weighted : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override;
  void plan_backward(Planner& planner) override;
  void bind(const Planner& planner, const Binding& binding) override;
  void forward(Queue& queue) override;
  void recompute(Queue& queue) override;
  void backward(Queue& queue) override;
  std::string detail() const override;

 protected:
  using Kind = ConvolutionShape::Kind;
  using Library = std::shared_ptr<const LibraryPlan>;

  // The library's plan for one of the three; forward includes bias and `activation`.
  virtual Library library(Kind kind, const MapSpec& from, const MapSpec& to, Activation activation) = 0;
  // Computes the data gradient, added to the existing one. Null if the library has no engine for it.
  virtual Library accumulating(const MapSpec& /*from*/, const MapSpec& /*to*/) { return nullptr; }
  virtual WeightLayout layout(const MapSpec& from) const = 0;
  virtual DataType output_type(const Planner& planner) const = 0;
  virtual bool leaves_padding() const { return false; }  // the library does not write the padding channels
  // The library's x is the layer's output and its y the layer's input, and it adds neither bias nor activation.
  virtual bool mirrored() const { return false; }

  bool has_bias() const { return layer().parameters.size() > 1; }

 private:
  struct Call {
    Library plan;
    TensorId workspace = kNoTensor;
    void* memory = nullptr;
    explicit operator bool() const { return plan != nullptr; }
  };
  Call call(Planner& planner, Library plan) const;
  void plan_data_gradient(Planner& planner, const MapSpec& from, const MapSpec& dy);
  void run(Queue& queue, const Call& call, void* x, void* w, void* y, const float* bias = nullptr) const;
  void product(Queue& queue) const;   // multiplies input and weights, with the library's epilogue
  void finish(Queue& queue) const;    // bias and activation after a mirrored convolution
  void activate(Queue& queue) const;  // the separate activation
  void bias_gradient(Queue& queue) const;
  void data_gradient(Queue& queue) const;

  bool training_ = false, has_gradient_ = false;
  Call forward_, data_, weights_;
  TensorId before_ = kNoTensor;  // input of GELU
  SumsPlan bias_sums_;
  TensorId narrow_ = kNoTensor;  // the gradient of a float32 output, in bf16
  TensorId apart_ = kNoTensor;   // the input's gradient, to be added to another
  Planner::Contribution contribution_;
  Map x_, y_, pre_activation_, dy_, library_dy_;
  GradientTarget d_input_;
  void* d_input_apart_ = nullptr;
  SumsMemory bias_memory_;
};

}  // namespace millrace::cuda
