// Dilated convolution where oneDNN has its reference implementation alone, which takes minutes a step: windows that reach far
// over the edge, as in DeepLab. Pixels whose rows and columns leave the same remainders by the dilation meet each other alone, as
// neighbours. Each such phase is copied to an image of its own; on these the convolution is dense.
#include <fmt/format.h>

#include "kernels/rearrange.h"
#include "operand.h"
#include "own_convolution.h"
#include "primitives.h"
#include "step.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;

constexpr auto kHow = dnnl::algorithm::convolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

class Phased final : public OwnConvolution {
 public:
  using OwnConvolution::OwnConvolution;

  std::string detail() const override {
    const auto name = [](const Step& step) { return step ? step.desc.impl_info_str() : "-"; };
    return fmt::format("by phases: {} | {} | {}", name(forward_), name(data_), name(weights_));
  }

 protected:
  void plan_forward(Planner& planner) override {
    const auto chosen = describe_forward(planner);
    forward_x_.plan(planner, x_);
    forward_y_.plan(planner, y_);
    kernel_.plan(planner, computed_weights(), chosen.weights_desc());
    forward_.plan(planner, chosen);
  }
  void plan_weights(Planner& planner) override {
    const auto forward = describe_forward(planner);
    const memory::desc d_weights = in_any_layout(canonical_weights());
    const auto chosen = describe_backward<dnnl::convolution_backward_weights>(
        workshop_.engine, forward, kHow, x_.desc(), d_weights, memory::desc(), y_.desc(), ones_, zeros_, before_, after_);
    backward_x_.plan(planner, x_);
    backward_dy_.plan(planner, y_);
    d_kernel_.plan(planner, workshop_.parameters.layout(layer().parameters[0]), chosen.diff_weights_desc());
    weights_.plan(planner, chosen);
  }
  void plan_data(Planner& planner) override {
    const auto forward = describe_forward(planner);
    const auto chosen = describe_backward<dnnl::convolution_backward_data>(
        workshop_.engine, forward, kHow, x_.desc(), in_any_layout(computed_weights()), y_.desc(), ones_, zeros_, before_, after_);
    if (!trains(0)) backward_dy_.plan(planner, y_);
    backward_dx_.plan(planner, x_);
    data_kernel_.plan(planner, computed_weights(), chosen.weights_desc());
    data_.plan(planner, chosen);
  }
  void bind_scratch(const Binding& binding) override {
    const dnnl::engine& engine = workshop_.engine;
    for (Copy* copy : {&forward_x_, &backward_x_, &backward_dx_}) copy->bind(binding, engine, x_);
    for (Copy* copy : {&forward_y_, &backward_dy_}) copy->bind(binding, engine, y_);
    if (forward_) kernel_.bind(engine, binding, held_weights());
    if (data_) data_kernel_.bind(engine, binding, held_weights());
    if (weights_) d_kernel_.bind(engine, binding, gradient(0));
    for (Step* step : {&forward_, &data_, &weights_}) step->bind(binding, engine);
  }

  void convolve(const Map& x, const float* bias, bool, const Map& y) override {  // a ReLU is the primitive's
    split(x, forward_x_);
    kernel_.load(workshop_.stream);
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, forward_x_.memory},
                                                 {DNNL_ARG_WEIGHTS, kernel_.memory()},
                                                 {DNNL_ARG_DST, forward_y_.memory},
                                                 {DNNL_ARG_SCRATCHPAD, forward_.scratch_memory}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(bias_desc(), workshop_.engine, const_cast<float*>(bias)));
    forward_.primitive.execute(workshop_.stream, arguments);
    join(forward_y_, y);
  }
  void convolve_backward_weights(const Map& x, const Map& dy, float*) override {
    split(x, backward_x_);
    split(dy, backward_dy_);
    weights_.primitive.execute(workshop_.stream, {{DNNL_ARG_SRC, backward_x_.memory},
                                                  {DNNL_ARG_DIFF_DST, backward_dy_.memory},
                                                  {DNNL_ARG_DIFF_WEIGHTS, d_kernel_.memory()},
                                                  {DNNL_ARG_SCRATCHPAD, weights_.scratch_memory}});
    d_kernel_.store(workshop_.stream);
  }
  void convolve_backward_data(const Map& dy, const Map& dx) override {
    if (!weights_) split(dy, backward_dy_);
    data_kernel_.load(workshop_.stream);
    data_.primitive.execute(workshop_.stream, {{DNNL_ARG_DIFF_DST, backward_dy_.memory},
                                               {DNNL_ARG_WEIGHTS, data_kernel_.memory()},
                                               {DNNL_ARG_DIFF_SRC, backward_dx_.memory},
                                               {DNNL_ARG_SCRATCHPAD, data_.scratch_memory}});
    join(backward_dx_, dx);
  }

 private:
  // A map's phases. Forward and backward have copies of their own: each is there only while it is planned to be.
  struct Copy {
    TensorId tensor = kNoTensor;
    Map map;
    dnnl::memory memory;

    void plan(Planner& planner, const MapSpec& spec) { tensor = planner.tensor(spec.bytes()); }
    void bind(const Binding& binding, const dnnl::engine& engine, const MapSpec& spec) {
      if (tensor == kNoTensor) return;
      map = spec.map(binding.at(tensor));
      memory = dnnl::memory(spec.desc(), engine, map.data);
    }
  };

  void split(const Map& map, const Copy& copy) { to_phases(map, conv().dilation.height, conv().dilation.width, copy.map); }
  void join(const Copy& copy, const Map& map) { from_phases(copy.map, conv().dilation.height, conv().dilation.width, map); }

  // Of all phases of a map.
  MapSpec phases_of(const MapSpec& spec) const {
    const std::int64_t rows = conv().dilation.height, columns = conv().dilation.width;
    return {spec.n * rows * columns,
            spec.channels,
            (spec.height + rows - 1) / rows,
            (spec.width + columns - 1) / columns,
            spec.type,
            spec.layout};
  }
  dnnl::convolution_forward::primitive_desc describe_forward(const Planner& planner) {
    x_ = phases_of(planner.value(input()).spec);
    y_ = phases_of(planner.value(node_.output).spec);
    before_ = {conv().padding.top / conv().dilation.height, conv().padding.left / conv().dilation.width};
    after_ = {y_.height - x_.height - before_[0] + conv().kernel.height - 1,
              y_.width - x_.width - before_[1] + conv().kernel.width - 1};
    const int parameter = layer().parameters[0];
    const bool known = workshop_.parameters.has_layout(parameter);
    const memory::desc weights = known ? computed_weights() : in_any_layout(canonical_weights(), to_dnnl(workshop_.type()));
    const bool relu = node_.activation == Activation::relu;
    const memory::desc bias = layer().parameters.size() > 1 ? bias_desc() : memory::desc();
    const auto chosen = describe<dnnl::convolution_forward>(workshop_.engine, attributes(relu), kTraining, kHow, x_.desc(),
                                                            weights, bias, y_.desc(), ones_, zeros_, before_, after_);
    if (!known) workshop_.parameters.set_layout(parameter, chosen.weights_desc(), canonical_weights());
    return chosen;
  }
  memory::desc bias_desc() const { return {{layer().output[0]}, memory::data_type::f32, memory::format_tag::a}; }
  memory::desc canonical_weights() const {
    const Shape& shape = workshop_.parameters.parameter(layer().parameters[0]).shape;  // (out, in, height, width)
    return {{shape[0], shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::oihw};
  }
  const memory::desc& computed_weights() const { return workshop_.parameters.computed_layout(layer().parameters[0]); }
  void* held_weights() const { return workshop_.parameters.computed_value(layer().parameters[0]); }

  const memory::dims ones_ = {1, 1}, zeros_ = {0, 0};
  memory::dims before_, after_;  // padding of a phase
  MapSpec x_, y_;                // of all phases
  Step forward_, data_, weights_;
  Operand kernel_, data_kernel_, d_kernel_;
  Copy forward_x_, forward_y_, backward_x_, backward_dy_, backward_dx_;
};

}  // namespace

bool takes_phases(const Workshop& workshop, const Node& node) {
  const Layer& layer = workshop.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  const bool dilated = conv.dilation.height > 1 || conv.dilation.width > 1;
  const bool fits = !conv.transposed && conv.groups == 1 && conv.stride.height == 1 && conv.stride.width == 1 &&
                    conv.padding.top % conv.dilation.height == 0 && conv.padding.left % conv.dilation.width == 0;
  if (!dilated || !fits || node.inputs.front() == Network::kInput) return false;
  const memory::desc x = in_any_layout(MapSpec::of(layer.input_shapes[0], 1, workshop.type(), workshop.layout).desc());
  const memory::desc y = in_any_layout(MapSpec::of(layer.output, 1, workshop.type(), workshop.layout).desc());
  const memory::dims extents = {conv.out, layer.input_shapes[0][0], conv.kernel.height, conv.kernel.width};
  const memory::desc weights(extents, to_dnnl(workshop.type()), memory::format_tag::any), none;
  const memory::desc d_weights(extents, memory::data_type::f32, memory::format_tag::any);
  const memory::dims strides = {1, 1}, dilates = {conv.dilation.height - 1, conv.dilation.width - 1};
  const memory::dims before = {conv.padding.top, conv.padding.left}, after = {conv.padding.bottom, conv.padding.right};
  try {
    const auto forward = describe<dnnl::convolution_forward>(workshop.engine, attributes(), kTraining, kHow, x, weights, none, y,
                                                             strides, dilates, before, after);
    return is_slow_convolution(forward) ||
           is_slow_convolution(describe_backward<dnnl::convolution_backward_data>(workshop.engine, forward, kHow, x, weights, y,
                                                                                  strides, dilates, before, after)) ||
           is_slow_convolution(describe_backward<dnnl::convolution_backward_weights>(workshop.engine, forward, kHow, x, d_weights,
                                                                                     none, y, strides, dilates, before, after));
  } catch (const dnnl::error&) {  // whoever computes it will say so
    return false;
  }
}

std::unique_ptr<Operation> make_phased(Workshop& workshop, const Node& node) { return std::make_unique<Phased>(workshop, node); }

}  // namespace millrace::cpu
