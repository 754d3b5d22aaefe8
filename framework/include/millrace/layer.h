// Layers: parts of a network, written once as kernels of values (kernels.h) and computed on every backend.
//
//   struct Slope {  // y = x for x > 0, else slope * x                             in leaky_relu_kernels.h
//     float slope;
//     MILLRACE_KERNEL float operator()(float x) const { return x > 0 ? x : slope * x; }
//   };
//   struct SlopeGradient {
//     float slope;
//     MILLRACE_KERNEL float operator()(float x, float dy) const { return x > 0 ? dy : slope * dy; }
//   };
//   MILLRACE_KERNELS(Slope, SlopeGradient)
//
//   class LeakyRelu : public PortableLayer {
//    public:
//     struct Params { double slope = 0.01; };
//     static void describe(LayerDescription<Params>& d) {
//       d.name("leaky_relu").text("x where it is positive, else slope * x.").example("slope = 0.2", {{8, 5, 7}});
//       d.params.add("slope", &Params::slope).text("of negative values");
//     }
//     explicit LeakyRelu(const Params& params) : slope_(static_cast<float>(params.slope)) {}
//     void forward(Pass& pass) const override { pass.each(Slope{slope_}, pass.in(), pass.out()); }
//     void backward(Pass& pass) const override { pass.each(SlopeGradient{slope_}, pass.in(), pass.d_out(), pass.d_in()); }
//    private:
//     const float slope_;
//   };
//   MILLRACE_PLUGIN("leaky_relu", "1.0", "The activation leaky_relu.") { registry.add_layer<LeakyRelu>(); }
//
// A constructor throws Error(usage) for mistakes that the declaration cannot express. A layer with weights overrides plan() and
// names them in LayerPlan::parameters (detail/layer_plan.h); its kernels read pass.parameter(i) and write pass.d_parameter(i).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/types.h"
#include "millrace/kernels/portable.h"
#include "millrace/params.h"

namespace millrace {

class OnnxLayer;

// Records a layer's computation. A layer is called once, when it is compiled; the recorded calls run in every step. Gradients
// that are not needed are left out, as are calls that produce nothing else. Each gradient is written by one call. An input whose
// gradient no call writes receives none from this layer.
class Pass : public PassCalls {
 public:
  explicit Pass(std::vector<Shape> inputs) : inputs_(std::move(inputs)) {}

  const Shape& input_shape(int index = 0) const { return inputs_[static_cast<std::size_t>(index)]; }
  PassTensor in(int index = 0) const { return {PassTensor::Kind::input, index}; }
  PassTensor out(int index = 0) const { return {PassTensor::Kind::output, index}; }
  PassTensor d_out(int index = 0) const { return {PassTensor::Kind::d_output, index}; }
  PassTensor d_in(int index = 0) const { return {PassTensor::Kind::d_input, index}; }
  PassTensor parameter(int index) const { return {PassTensor::Kind::parameter, index}; }  // in the order of LayerPlan
  PassTensor d_parameter(int index) const { return {PassTensor::Kind::d_parameter, index}; }
  PassTensor places(int index) const { return {PassTensor::Kind::places, index}; }  // float32, kept for backward

 private:
  const std::vector<Shape> inputs_;
};

// A layer whose operation is portable. Immutable and thread-safe.
class PortableLayer {
 public:
  virtual ~PortableLayer() = default;

  // The output's shape and the parameters; by default infer() of the first input, and no parameters. Both throw Error(usage) for
  // shapes that do not fit; the caller adds name and position. For some shapes LayerPlan::portable may be another layer.
  virtual LayerPlan plan(const std::vector<Shape>& inputs) const;
  virtual Shape infer(const Shape& input) const { return input; }
  virtual void forward(Pass& pass) const = 0;
  virtual void backward(Pass& pass) const = 0;
  // Appends what forward() computes in inference to an ONNX graph (onnx.h). By default throws Error(usage): no form is known.
  virtual void write_onnx(OnnxLayer& onnx) const;
};

// Describes a layer type in `static void describe(LayerDescription<Params>&)`.
class LayerAttributes {
 public:
  LayerAttributes& name(std::string_view value);
  LayerAttributes& text(std::string_view value);
  // A common alias, such as "swish". Error messages for it suggest name(), and the description lists it. Call it after text().
  LayerAttributes& also_called(std::string_view value);
  LayerAttributes& inputs(int least, int most);  // number of inputs; exactly one by default
  // Names of the ports: LayerPlan::output, then LayerPlan::more_outputs. By default one port, "out". All of them carry values.
  LayerAttributes& outputs(const std::vector<std::string>& names);
  LayerAttributes& example(std::string_view table, std::vector<Shape> inputs);  // see LayerExample

 private:
  friend struct LayerMaker;
  LayerType type_;
};

template <class Params>
struct LayerDescription : LayerAttributes {
  ParamSet<Params> params;
};

}  // namespace millrace

#include "millrace/templates/layer_type.h"
