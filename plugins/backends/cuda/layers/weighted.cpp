// Convolutions and linear layers: a library computes them, with a bias and an activation after.
#include <fmt/format.h>

#include <utility>

#include "millrace/error.h"
#include "operation.h"
#include "sums.h"

namespace millrace::cuda {
namespace {

// Common base of both.
class Weighted : public Operation {
 public:
  using Operation::Operation;

  void plan(Planner& planner) override {
    training_ = planner.training();
    const Value& from = planner.value(input());
    Value& output = plan_output(planner, output_type(planner));
    planner.use(from.tensor);
    compile_context_.parameters.set_layout(layer().parameters[0], layout(from.spec));
    // Backward needs the input of GELU; for ReLU the result suffices.
    const bool apart = node_.activation == Activation::gelu && training_;
    if (apart) before_ = planner.tensor(output.spec.bytes());
    if (output_is_kept() && !apart) return;  // nothing to recompute
    forward_ = call(planner, library(Kind::forward, from.spec, output.spec, apart ? Activation::none : node_.activation));
  }

  void plan_backward(Planner& planner) override {
    const Value& output = planner.value(node_.output);
    has_gradient_ = output.gradient != kNoTensor;
    if (!has_gradient_) return;
    const Value& from = planner.value(input());
    MapSpec dy = output.spec;
    planner.use(output.gradient);
    if (node_.activation == Activation::relu) planner.use(output.tensor);
    if (node_.activation == Activation::gelu) planner.use(before_);
    if (has_bias() && trains(1)) bias_sums_ = SumsPlan::of(planner, compile_context_, dy, 1);
    if (dy.type != compile_context_.type()) {
      dy.type = compile_context_.type();
      narrow_ = planner.tensor(dy.bytes());
    }
    if (trains(0)) {
      planner.use(from.tensor);
      weights_ = call(planner, library(Kind::weight_gradient, from.spec, dy, Activation::none));
    }
    if (wants_gradient(planner, input())) plan_data_gradient(planner, from.spec, dy);
  }

  void bind(const Planner& planner, const Binding& binding) override {
    for (Call* call : {&forward_, &data_, &weights_}) call->memory = binding.at(call->workspace);
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    pre_activation_ = {before_ == kNoTensor ? y_.data : binding.at(before_), y_.spec};
    if (!has_gradient_) return;
    dy_ = library_dy_ = gradient_of(planner, binding, node_.output);
    if (narrow_ != kNoTensor) library_dy_ = {binding.at(narrow_), dy_.spec};
    library_dy_.spec.type = compile_context_.type();
    bias_memory_ = SumsMemory::of(bias_sums_, binding);
    if (!data_) return;
    d_input_ = target_of(planner, binding, input(), contribution_);
    d_input_apart_ = binding.at(apart_);
  }

  void forward(Queue& queue) override {
    product(queue);
    if (before_ != kNoTensor) activate(queue);
  }

  void recompute(Queue& queue) override {
    if (forward_) product(queue);
    if (before_ != kNoTensor && !output_is_kept()) activate(queue);
  }

  void backward(Queue& queue) override {
    if (!has_gradient_) return;
    if (node_.activation != Activation::none) {
      with_type(dy_.spec.type, [&]<class T>(T) {
        queue.run(ActivateBackward<T>{.from = node_.activation == Activation::relu ? y_.as<T>() : pre_activation_.as<T>(),
                                      .dy = dy_.as<T>(),
                                      .dx = dy_.as<T>(),
                                      .packs = dy_.spec.packs(),
                                      .kind = node_.activation});
      });
    }
    if (bias_memory_) bias_gradient(queue);
    if (library_dy_.data != dy_.data) {
      queue.run(FloatToBf16{.from = dy_.as<float>(), .to = library_dy_.as<Bf16>(), .packs = dy_.spec.packs()});
    }
    if (weights_) run(queue, weights_, x_.data, gradient(0), library_dy_.data);
    if (data_) data_gradient(queue);
  }

  std::string detail() const override {
    const auto name = [](const Call& call) { return call ? call.plan->engine() : "-"; };
    // If the output is kept, only the first operation ran forward.
    const auto* const first_one = static_cast<const Weighted*>(first());
    return fmt::format("{} | {} | {}", name(forward_ || !first_one ? forward_ : first_one->forward_), name(data_),
                       name(weights_));
  }

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

  Call call(Planner& planner, Library plan) const {
    const std::size_t bytes = plan->workspace();
    return {std::move(plan), bytes > 0 ? planner.tensor(bytes) : kNoTensor, nullptr};
  }

  // Where another reader has left a gradient, the library adds to it; if it cannot, the two are added here.
  void plan_data_gradient(Planner& planner, const MapSpec& from, const MapSpec& dy) {
    const bool second = planner.value(input()).gradient != kNoTensor;
    Library adding = second && compile_context_.shortcuts.accumulate ? accumulating(from, dy) : nullptr;
    const bool apart = second && adding == nullptr;
    data_ = call(planner, adding ? std::move(adding) : library(Kind::data_gradient, from, dy, Activation::none));
    contribution_ = contribute(planner, input());
    if (apart) apart_ = planner.tensor(from.bytes());
  }

  void run(Queue& queue, const Call& call, void* x, void* w, void* y, const float* bias = nullptr) const {
    queue.run(LibraryRun{.plan = call.plan.get(),
                         .x = mirrored() ? y : x,
                         .w = w,
                         .y = mirrored() ? x : y,
                         .bias = bias,
                         .workspace = call.memory});
  }

  // multiplies input and weights, with the library's epilogue
  void product(Queue& queue) const {
    if (leaves_padding()) queue.zero(pre_activation_.data, pre_activation_.spec.bytes());
    run(queue, forward_, x_.data, compile_context_.parameters.weights(layer().parameters[0]), pre_activation_.data,
        has_bias() && !mirrored() ? value(1) : nullptr);
    if (mirrored()) finish(queue);
  }

  // bias and activation after a mirrored convolution
  void finish(Queue& queue) const {
    const Activation activation = before_ == kNoTensor ? node_.activation : Activation::none;
    if (!has_bias() && activation == Activation::none) return;
    with_type(pre_activation_.spec.type, [&]<class T>(T) {
      queue.run(BiasActivate<T>{.y = pre_activation_.as<T>(),
                                .bias = has_bias() ? value(1) : nullptr,
                                .rows = pre_activation_.spec.rows(),
                                .row_packs = pre_activation_.spec.row_packs(),
                                .kind = activation});
    });
  }

  // the separate activation
  void activate(Queue& queue) const {
    with_type(y_.spec.type, [&]<class T>(T) {
      queue.run(Activate<T>{.x = pre_activation_.as<T>(), .y = y_.as<T>(), .packs = y_.spec.packs(), .kind = node_.activation});
    });
  }

  void bias_gradient(Queue& queue) const {
    FinishSums finish{.partial = bias_memory_.partial,
                      .chunks = chunks_of(dy_.spec.rows(), dy_.spec.row_packs()),
                      .channels = dy_.spec.pitch()};
    finish.out[0] = gradient(1);
    with_type(dy_.spec.type, [&]<class T>(T) {
      ColumnSums<T> kernel{.x = dy_.as<T>(), .rows = dy_.spec.rows(), .packs = dy_.spec.row_packs()};
      bias_memory_.run(queue, compile_context_, kernel, finish);
    });
  }

  void data_gradient(Queue& queue) const {
    const bool apart = apart_ != kNoTensor;
    void* const written = apart ? d_input_apart_ : d_input_.map.data;
    if (leaves_padding() && (apart || !d_input_.add)) queue.zero(written, d_input_.map.spec.bytes());
    run(queue, data_, written, compile_context_.parameters.weights(layer().parameters[0]), library_dy_.data);
    if (!apart) return;
    with_type(d_input_.map.spec.type, [&]<class T>(T) {
      queue.run(Add<T>{.a = d_input_.map.as<T>(),
                       .b = static_cast<const T*>(d_input_apart_),
                       .y = d_input_.map.as<T>(),
                       .packs = d_input_.map.spec.packs()});
    });
  }

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

// A transposed convolution is computed as its mirror, the convolution from the layer's output to its input: forward is the
// mirror's data gradient, the data gradient is the mirror's forward, the weight gradient is the mirror's. The network's weights,
// (in, out / groups, height, width), are the mirror's, (k, c / groups, height, width).
class Convolution final : public Weighted {
 public:
  Convolution(CompileContext& compile_context, const Node& node)
      : Weighted(compile_context, node), conv_(layer().as<ConvAttributes>()) {}

 protected:
  Library library(Kind kind, const MapSpec& from, const MapSpec& to, Activation activation) override {
    if (mirrored())
      return compile_context_.machine.plan(shape_of(mirror(kind), to, from), PlanChoice::of(compile_context_.options));
    ConvolutionShape shape = shape_of(kind, from, to);
    shape.bias = kind == Kind::forward && has_bias();
    shape.activation = activation;
    return compile_context_.machine.plan(shape, PlanChoice::of(compile_context_.options));
  }

  Library accumulating(const MapSpec& from, const MapSpec& to) override {
    if (mirrored()) return nullptr;
    ConvolutionShape shape = shape_of(Kind::data_gradient, from, to);
    shape.accumulate = true;
    try {
      return compile_context_.machine.plan(shape, PlanChoice::of(compile_context_.options));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      return nullptr;
    }
  }

  WeightLayout layout(const MapSpec& from) const override {
    const std::int64_t k = mirrored() ? from.channels : conv_.out;
    const std::int64_t c = (mirrored() ? conv_.out : from.channels) / conv_.groups;
    const bool pads_in = conv_.groups == 1;
    return {k, c, conv_.kernel.height, conv_.kernel.width, pads_out() ? pitch_of(k) : k, pads_in ? pitch_of(c) : c};
  }

  DataType output_type(const Planner&) const override { return compile_context_.type(); }
  bool mirrored() const override { return conv_.transposed; }
  bool leaves_padding() const override {
    return !pads_out() &&
           (pitch_of(conv_.out) != conv_.out || pitch_of(layer().input_shapes[0][0]) != layer().input_shapes[0][0]);
  }

 private:
  static Kind mirror(Kind kind) {
    if (kind == Kind::weight_gradient) return kind;
    return kind == Kind::forward ? Kind::data_gradient : Kind::forward;
  }

  ConvolutionShape shape_of(Kind kind, const MapSpec& from, const MapSpec& to) const {
    return ConvolutionShape{.kind = kind,
                            .type = compile_context_.type(),
                            .n = from.n,
                            .c = from.channels,
                            .h = from.height,
                            .w = from.width,
                            .k = to.channels,
                            .out_h = to.height,
                            .out_w = to.width,
                            .kernel_h = conv_.kernel.height,
                            .kernel_w = conv_.kernel.width,
                            .stride_h = conv_.stride.height,
                            .stride_w = conv_.stride.width,
                            .dilation_h = conv_.dilation.height,
                            .dilation_w = conv_.dilation.width,
                            .top = conv_.padding.top,
                            .left = conv_.padding.left,
                            .bottom = conv_.padding.bottom,
                            .right = conv_.padding.right,
                            .groups = conv_.groups,
                            .tf32 = compile_context_.options.precision == Precision::tf32};
  }

  bool depthwise() const { return conv_.groups == conv_.out && conv_.groups == layer().input_shapes[0][0]; }
  bool pads_out() const { return conv_.groups == 1 || depthwise(); }

  const ConvAttributes& conv_;
};

class Linear final : public Weighted {
 public:
  using Weighted::Weighted;

 protected:
  Library library(Kind kind, const MapSpec& from, const MapSpec& to, Activation activation) override {
    LinearShape shape{.kind = kind,
                      .type = compile_context_.type(),
                      .result = to.type,
                      .rows = from.n,
                      .in = from.height * from.width * from.pitch(),
                      .out = to.pitch(),
                      .bias = kind == Kind::forward && has_bias(),
                      .activation = activation,
                      .tf32 = compile_context_.options.precision == Precision::tf32};
    return compile_context_.machine.plan(shape, PlanChoice::of(compile_context_.options));
  }

  WeightLayout layout(const MapSpec& from) const override {
    const std::int64_t out = layer().output[0];
    return {out, from.channels, from.height, from.width, pitch_of(out), from.pitch()};
  }

  // From the network's plan of types: float32 for the logits.
  DataType output_type(const Planner& planner) const override { return planner.value(node_.output).spec.type; }
};

}  // namespace

std::unique_ptr<Operation> make_convolution(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Convolution>(compile_context, node);
}
std::unique_ptr<Operation> make_linear(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Linear>(compile_context, node);
}

}  // namespace millrace::cuda
