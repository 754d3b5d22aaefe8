// Convolutions and linear layers in int8 through oneDNN: sums of products of bytes, exact in 32 bits, then one multiplication, a
// ReLU and rounding in the same primitive.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "int8/int8_plan.h"
#include "memory_region.h"
#include "operand.h"
#include "operation.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;
using Desc = memory::desc;

// What a primitive gets for each output channel: y = factor * (sum + bias).
#if DNNL_VERSION_MAJOR >= 3
constexpr int kFactors = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
constexpr bool kBiasIsScaled = false;  // y = factor * sum + bias
#else
constexpr int kFactors = DNNL_ARG_ATTR_OUTPUT_SCALES;
constexpr bool kBiasIsScaled = true;
#endif

dnnl::primitive_attr attributes_of(bool is_grouped, bool relu) {
  dnnl::primitive_attr attributes = cpu::attributes();
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, is_grouped ? 3 : 1);
  if (relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  static_cast<void>(is_grouped);
  attributes.set_output_scales(1 << 1, {DNNL_RUNTIME_F32_VAL});
  if (relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
  attributes.set_post_ops(after);
  return attributes;
}

// A sum of products of bytes, its operands and its layer.
struct Int8Sum {
  Desc source, weights, destination;  // in memory; weights: of oneDNN's choice
  bool relu = false;
  memory::dims strides, dilates, before, after;  // empty for a linear layer
};

dnnl::primitive_desc_base choose(const dnnl::engine& engine, const Int8Sum& sum, const Pick& pick) {
  const memory::dims weights = dims_of(sum.weights), results = dims_of(sum.destination);
  const Desc bias({results[1]}, memory::data_type::f32, memory::format_tag::a);
  const auto inference = dnnl::prop_kind::forward_inference;
  const dnnl::primitive_attr how = attributes_of(weights.size() == 5, sum.relu);
  const auto first = [&](auto desc) -> dnnl::primitive_desc_base {
    while (!pick(desc)) {
      if (!desc.next_impl()) throw dnnl::error(dnnl_unimplemented, "no implementation is left that computes this rightly");
    }
    return desc;
  };
  if (sum.strides.empty())
    return first(
        cpu::describe<dnnl::inner_product_forward>(engine, how, inference, sum.source, sum.weights, bias, sum.destination));
  return first(cpu::describe<dnnl::convolution_forward>(engine, how, inference, dnnl::algorithm::convolution_direct, sum.source,
                                                        sum.weights, bias, sum.destination, sum.strides, sum.dilates, sum.before,
                                                        sum.after));
}

class Int8Window final : public Operation {
 public:
  Int8Window(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), int8_(*compile_context.int8) {}

  void plan(Planner& planner) override {
    const MapSpec from = planner.value(input()).spec;
    int8_.use(planner, input());
    is_rounded_ = int8_.has(node_.output);
    MapSpec to = MapSpec::of(output_shape(), from.n, DataType::f32, compile_context_.layout);
    if (int8_.needs_floats(node_.output))
      plan_output(planner, DataType::f32);
    else
      planner.value(node_.output).spec = to;
    if (is_rounded_) int8_.plan(planner, node_.output, to);
    describe(from.n);
    step_.plan(planner, desc_);
  }
  void plan_backward(Planner&) override { fail(ErrorKind::usage, "a network in int8 has no gradients"); }

  void bind(const Planner& planner, const Binding& binding) override {
    const Value& to = planner.value(node_.output);
    source_ = memory(sum_.source, compile_context_.engine, int8_.bind(binding, input()).data);
    if (is_rounded_) rounded_ = int8_.bind(binding, node_.output);
    if (to.tensor != kNoTensor) floats_ = to.spec.map(binding.at(to.tensor));
    destination_ = memory(sum_.destination, compile_context_.engine, is_rounded_ ? rounded_.data : floats_.data);
    step_.bind(binding, compile_context_.engine);
  }

  void forward(const Pass&) override {
    if (version_ != compile_context_.parameters.version()) take_parameters();
    step_.primitive.execute(compile_context_.stream, {{DNNL_ARG_SRC, source_},
                                                      {DNNL_ARG_WEIGHTS, weights_},
                                                      {DNNL_ARG_BIAS, bias_},
                                                      {kFactors, factors_},
                                                      {DNNL_ARG_DST, destination_},
                                                      {DNNL_ARG_SCRATCHPAD, step_.scratch_memory}});
    if (is_rounded_ && floats_.data != nullptr) from_integers(rounded_, floats_);
  }
  void backward(const Pass&) override {}
  std::string detail() const override { return fmt::format("int8, {}", desc_.impl_info_str()); }

 private:
  memory::dims source_dims(std::int64_t samples) const {
    const Shape& shape = layer().input_shapes[0];
    memory::dims dims = {samples};
    dims.insert(dims.end(), shape.begin(), shape.end());
    return dims;
  }
  static Desc in_rows(const memory::dims& dims, memory::data_type type) {
    return {dims, type, dims.size() == 4 ? memory::format_tag::nhwc : memory::format_tag::nc};
  }

  void describe(std::int64_t samples) {
    const auto type_of_grid = [&](LayerPort value) {
      return grid_of(network_, value)->is_signed ? memory::data_type::s8 : memory::data_type::u8;
    };
    sum_.source = in_rows(source_dims(samples), type_of_grid(input()));
    memory::dims results = {samples};
    for (const std::int64_t extent : output_shape()) results.push_back(extent);
    sum_.destination = in_rows(results, is_rounded_ ? type_of_grid(node_.output) : memory::data_type::f32);
    sum_.relu = node_.activation == Activation::relu;
    const Shape& shape = parameter_shape(0);
    memory::dims weights(shape.begin(), shape.end());
    canonical_ = memory::format_tag::oihw;
    if (layer().op == "conv") {
      const auto& conv = layer().as<ConvAttributes>();
      sum_.strides = {conv.stride.height, conv.stride.width};
      sum_.dilates = {conv.dilation.height - 1, conv.dilation.width - 1};
      sum_.before = {conv.padding.top, conv.padding.left};
      sum_.after = {conv.padding.bottom, conv.padding.right};
      if (conv.groups > 1) {
        weights[0] /= conv.groups;
        weights.insert(weights.begin(), conv.groups);
        canonical_ = memory::format_tag::goihw;
      }
    } else if (layer().input_shapes[0].rank() == 3) {
      const Shape& from = layer().input_shapes[0];
      weights = {weights[0], from[0], from[1], from[2]};
    } else {
      canonical_ = memory::format_tag::oi;
    }
    sum_.weights = {weights, memory::data_type::s8, memory::format_tag::any};
    desc_ = choose(compile_context_.engine, sum_, [](const dnnl::primitive_desc_base&) { return true; });
    const auto channels = static_cast<std::size_t>(output_shape()[0]);
    values_.resize(static_cast<std::size_t>(shape.elements()));
    bias_values_.resize(channels);
    factor_values_.resize(channels);
  }

  // The weights as integers, in the primitive's layout.
  void take_parameters() {
    const std::size_t channels = factor_values_.size(), each = values_.size() / channels;
    const float *const weights = value(0), *const bias = value(1), *const scales = value(2);
    const float input_scale = grid_of(network_, input())->scale, output_scale = is_rounded_ ? rounded_.scale : 1;
    for (std::size_t c = 0; c < channels; ++c) {
      const double unit = double{input_scale} * scales[c];
      for (std::size_t i = c * each; i < (c + 1) * each; ++i)
        values_[i] = static_cast<std::int8_t>(std::lround(std::clamp(weights[i] / scales[c], -128.0F, 127.0F)));
      factor_values_[c] = static_cast<float>(unit / output_scale);
      bias_values_[c] = static_cast<float>(bias[c] / (kBiasIsScaled ? unit : output_scale));
    }
    const dnnl::engine& engine = compile_context_.engine;
    const Desc layout = desc_.query_md(dnnl::query::weights_md);
    if (weights_memory_.bytes() < layout.get_size()) weights_memory_ = MemoryRegion(layout.get_size());
    weights_ = memory(layout, engine, weights_memory_.as<void>());
    memory plain(Desc(dims_of(sum_.weights), memory::data_type::s8, canonical_), engine, values_.data());
    dnnl::reorder(plain, weights_).execute(compile_context_.stream, plain, weights_);
    compile_context_.stream.wait();
    const Desc by_channel({static_cast<memory::dim>(channels)}, memory::data_type::f32, memory::format_tag::a);
    bias_ = memory(by_channel, engine, bias_values_.data());
    factors_ = memory(by_channel, engine, factor_values_.data());
    version_ = compile_context_.parameters.version();
  }

  Int8Plan& int8_;
  Int8Sum sum_;
  memory::format_tag canonical_ = memory::format_tag::oihw;
  dnnl::primitive_desc_base desc_;
  Step step_;
  bool is_rounded_ = false;
  Int8Values rounded_;
  Map floats_;
  MemoryRegion weights_memory_;
  std::vector<std::int8_t> values_;
  std::vector<float> bias_values_, factor_values_;
  memory source_, weights_, bias_, factors_, destination_;
  std::uint64_t version_ = 0;  // of the parameters
};

}  // namespace

std::unique_ptr<Operation> make_int8_window(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Int8Window>(compile_context, node);
}

}  // namespace millrace::cpu
