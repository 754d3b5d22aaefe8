// Convolutions and linear layers in int8 through oneDNN: sums of products of bytes, exact in 32 bits, then one multiplication, a
// ReLU and rounding in the same primitive.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <set>

#include "int8/int8_plan.h"
#include "memory_region.h"
#include "operand.h"
#include "operation.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

using dnnl::memory;
using Desc = memory::desc;

// Each output channel has a factor. oneDNN 3 takes the factors as an argument, y = factor * sum + bias; oneDNN 2, as far as its
// convolutions go, only when a primitive is made, y = factor * (sum + bias).
#if DNNL_VERSION_MAJOR >= 3
constexpr int kFactors = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
constexpr bool kIsMadeWithFactors = false;
#else
constexpr int kFactors = DNNL_ARG_ATTR_OUTPUT_SCALES;  // not read
constexpr bool kIsMadeWithFactors = true;
#endif

dnnl::primitive_attr attributes_of(bool is_grouped, bool relu, const std::vector<float>& factors) {
  dnnl::primitive_attr attributes = cpu::attributes();
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  static_cast<void>(factors);
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, is_grouped ? 3 : 1);
  if (relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  static_cast<void>(is_grouped);
  attributes.set_output_scales(1 << 1, factors);
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
  std::vector<float> factors;                    // by output channel; 1 as long as they are unknown
};

dnnl::primitive_desc_base choose(const dnnl::engine& engine, const Int8Sum& sum, const Pick& pick) {
  const memory::dims weights = dims_of(sum.weights), results = dims_of(sum.destination);
  const Desc bias({results[1]}, memory::data_type::f32, memory::format_tag::a);
  const auto inference = dnnl::prop_kind::forward_inference;
  const dnnl::primitive_attr how = attributes_of(weights.size() == 5, sum.relu, sum.factors);
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

Pick same_as(const dnnl::primitive_desc_base& desc) {
  return [name = std::string(desc.impl_info_str())](const dnnl::primitive_desc_base& other) {
    return name == other.impl_info_str();
  };
}

Desc by_channel(std::size_t channels) {
  return {{static_cast<memory::dim>(channels)}, memory::data_type::f32, memory::format_tag::a};
}

memory in_layout(const dnnl::engine& engine, const Desc& plain, void* values, const Desc& layout, void* to) {
  memory from(plain, engine, values), made(layout, engine, to);
  dnnl::stream stream(engine);
  dnnl::reorder(from, made).execute(stream, from, made);
  stream.wait();
  return made;
}

// A trial of an implementation with operands in float32 that are whole numbers: it computes their sums, and the same sums rounded
// to its own type, which must agree.
class Int8Trial {
 public:
  Int8Trial(const dnnl::engine& engine, const Int8Sum& sum, const dnnl::primitive_desc_base& desc, memory::format_tag plain)
      : engine_(engine), sum_(sum), desc_(desc), plain_(plain) {
    exact_sum_ = sum;
    exact_sum_.relu = false;
    exact_sum_.destination = in_float32(sum.destination);
    exact_ = choose(engine, exact_sum_, [](const dnnl::primitive_desc_base&) { return true; });
    trial_ = trial_of({.layer = sum.strides.empty() ? WindowSum::Layer::linear : WindowSum::Layer::convolution,
                       .forward_kind = dnnl::prop_kind::forward_inference,
                       .strides = sum.strides,
                       .dilates = sum.dilates,
                       .before = sum.before,
                       .after = sum.after,
                       .source = in_float32(sum.source),
                       .weights = Desc(dims_of(sum.weights), memory::data_type::f32, plain),
                       .destination = exact_sum_.destination});
    for (const std::size_t bytes : {sum.source.get_size(), weights_bytes(desc), weights_bytes(exact_), sum.destination.get_size(),
                                    scratch_bytes(desc), scratch_bytes(exact_)}) {
      offsets_.push_back(trial_.scratch);
      trial_.scratch = aligned(trial_.scratch + bytes + 1);
    }
  }

  const Trial& trial() const { return trial_; }

  void run(const TrialMemory& at) const {
    auto* const scratch = static_cast<std::byte*>(at.scratch);
    const auto part = [&](std::size_t index) { return static_cast<void*>(scratch + offsets_[index]); };
    const auto *const x = static_cast<const float*>(at.x), *const w = static_cast<const float*>(at.w);
    auto* const y = static_cast<float*>(at.y);
    const std::size_t inputs = elements(sum_.source), results = elements(sum_.destination),
                      channels = static_cast<std::size_t>(dims_of(sum_.destination)[1]);
    std::vector<std::int8_t> weights(w, w + elements(Desc(dims_of(sum_.weights), memory::data_type::f32, plain_)));
    const Desc plain(dims_of(sum_.weights), memory::data_type::s8, plain_);
    const memory own = in_layout(engine_, plain, weights.data(), desc_.query_md(dnnl::query::weights_md), part(1));
    const memory of_exact = in_layout(engine_, plain, weights.data(), exact_.query_md(dnnl::query::weights_md), part(2));
    std::vector<float> factors(channels, 1), bias(channels, 0);
    const auto execute = [&](const dnnl::primitive_desc_base& desc, const memory& filters, const Desc& to, void* result,
                             void* work) {
      dnnl::stream stream(engine_);
      make_primitive(desc).execute(stream, {{DNNL_ARG_SRC, memory(sum_.source, engine_, part(0))},
                                            {DNNL_ARG_WEIGHTS, filters},
                                            {DNNL_ARG_BIAS, memory(by_channel(channels), engine_, bias.data())},
                                            {kFactors, memory(by_channel(channels), engine_, factors.data())},
                                            {DNNL_ARG_DST, memory(to, engine_, result)},
                                            {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc(), engine_, work)}});
      stream.wait();
    };
    // Unsigned bytes: the inputs plus a constant, and then that constant alone is taken off.
    constexpr int kRaised = 32;  // the least input of a trial is -32
    auto* const bytes = static_cast<std::uint8_t*>(part(0));
    const bool raised = type_of(sum_.source) == memory::data_type::u8;
    std::vector<float> constant(raised ? results : 0);
    if (raised) {
      std::fill(bytes, bytes + inputs, kRaised);
      execute(exact_, of_exact, exact_sum_.destination, constant.data(), part(5));
    }
    for (std::size_t i = 0; i < inputs; ++i)
      bytes[i] = static_cast<std::uint8_t>(static_cast<int>(x[i]) + (raised ? kRaised : 0));
    execute(exact_, of_exact, exact_sum_.destination, y, part(5));
    // The same, with a bias, rounded.
    float largest = 1;
    for (std::size_t i = 0; i < results; ++i) largest = std::max(largest, std::abs(y[i]));
    const float factor = 100 / largest, added = 3;
    std::fill(factors.begin(), factors.end(), factor);
    std::fill(bias.begin(), bias.end(), kIsMadeWithFactors ? added : added * factor);
    Int8Sum scaled = sum_;
    scaled.factors = factors;
    execute(choose(engine_, scaled, same_as(desc_)), own, sum_.destination, part(3), part(4));
    bool is_right = true;
    for (std::size_t i = 0; i < results; ++i) {
      float wanted = factor * (y[i] + added);
      if (sum_.relu) wanted = std::max(wanted, 0.0F);
      const auto type = type_of(sum_.destination);
      const float got = type == memory::data_type::u8   ? static_cast<const std::uint8_t*>(part(3))[i]
                        : type == memory::data_type::s8 ? static_cast<const std::int8_t*>(part(3))[i]
                                                        : static_cast<const float*>(part(3))[i];
      if (type == memory::data_type::u8) wanted = std::max(wanted, 0.0F);
      is_right = is_right && std::abs(got - wanted) <= (type == memory::data_type::f32 ? 1e-3F : 0.502F);
    }
    for (std::size_t i = 0; raised && i < results; ++i) y[i] -= constant[i];
    if (!is_right) y[0] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  static Desc in_float32(const Desc& desc) {
    const memory::dims dims = dims_of(desc);
    return {dims, memory::data_type::f32, dims.size() == 4 ? memory::format_tag::nhwc : memory::format_tag::nc};
  }
  static std::size_t elements(const Desc& desc) {
    std::size_t count = 1;
    for (const memory::dim extent : dims_of(desc)) count *= static_cast<std::size_t>(extent);
    return count;
  }
  static std::size_t weights_bytes(const dnnl::primitive_desc_base& desc) {
    return desc.query_md(dnnl::query::weights_md).get_size();
  }
  static std::size_t scratch_bytes(const dnnl::primitive_desc_base& desc) { return desc.scratchpad_desc().get_size(); }

  const dnnl::engine engine_;
  const Int8Sum sum_;
  Int8Sum exact_sum_;
  const dnnl::primitive_desc_base desc_;
  dnnl::primitive_desc_base exact_;
  const memory::format_tag plain_;
  Trial trial_;
  std::vector<std::size_t> offsets_;  // of input, weights twice, result, and scratch memory twice
};

// The first implementation that computes rightly. Throws dnnl::error if there is none.
dnnl::primitive_desc_base first_right(const dnnl::engine& engine, const PrimitiveChecks& checks, const Int8Sum& sum,
                                      memory::format_tag plain) {
  std::set<std::string> wrong;
  for (;;) {
    const auto chosen =
        choose(engine, sum, [&](const dnnl::primitive_desc_base& desc) { return !wrong.contains(desc.impl_info_str()); });
    const std::string implementation = chosen.impl_info_str();
    Int8Sum fewer = sum;
    dnnl::primitive_desc_base same = chosen;
    const memory::dim samples = std::max(2, omp_get_max_threads());
    if (samples < dims_of(sum.source)[0]) {
      for (Desc* map : {&fewer.source, &fewer.destination}) {
        memory::dims dims = dims_of(*map);
        dims[0] = samples;
        *map = Desc(dims, type_of(*map), dims.size() == 4 ? memory::format_tag::nhwc : memory::format_tag::nc);
      }
      try {
        same =
            choose(engine, fewer, [&](const dnnl::primitive_desc_base& desc) { return implementation == desc.impl_info_str(); });
      } catch (const dnnl::error&) {  // another implementation handles so few samples
        fewer = sum;
      }
    }
    const Int8Trial trial(engine, fewer, same, plain);
    const auto type = [](const Desc& desc) {
      return type_of(desc) == memory::data_type::u8 ? "u8" : type_of(desc) == memory::data_type::s8 ? "s8" : "f32";
    };
    const std::string name =
        fmt::format("sum in int8 of {} by {}, stride {}, dilation {}, padding {} and {}, {} to {}{}, by {}",
                    fmt::join(dims_of(fewer.source), "x"), fmt::join(dims_of(fewer.weights), "x"), fmt::join(fewer.strides, "x"),
                    fmt::join(fewer.dilates, "x"), fmt::join(fewer.before, "x"), fmt::join(fewer.after, "x"), type(fewer.source),
                    type(fewer.destination), fewer.relu ? " with ReLU" : "", implementation);
    if (checks.is_right(name, trial.trial(), [&](const TrialMemory& at) { trial.run(at); })) return chosen;
    wrong.insert(implementation);
  }
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
    const auto channels = static_cast<std::size_t>(output_shape()[0]);
    values_.resize(static_cast<std::size_t>(shape.elements()));
    bias_values_.resize(channels);
    sum_.factors.assign(channels, 1);
    desc_ = first_right(compile_context_.engine, compile_context_.checks, sum_, canonical_);
  }

  // The weights as integers, in the primitive's layout.
  void take_parameters() {
    const std::size_t channels = bias_values_.size(), each = values_.size() / channels;
    const float *const weights = value(0), *const bias = value(1), *const scales = value(2);
    const float input_scale = grid_of(network_, input())->scale, output_scale = is_rounded_ ? rounded_.scale : 1;
    for (std::size_t c = 0; c < channels; ++c) {
      const double unit = double{input_scale} * scales[c];
      for (std::size_t i = c * each; i < (c + 1) * each; ++i)
        values_[i] = static_cast<std::int8_t>(std::lround(std::clamp(weights[i] / scales[c], -128.0F, 127.0F)));
      sum_.factors[c] = static_cast<float>(unit / output_scale);
      bias_values_[c] = static_cast<float>(bias[c] / (kIsMadeWithFactors ? unit : output_scale));
    }
    const dnnl::engine& engine = compile_context_.engine;
    const Desc layout = desc_.query_md(dnnl::query::weights_md);
    if (weights_memory_.bytes() < layout.get_size()) weights_memory_ = MemoryRegion(layout.get_size());
    weights_ = in_layout(engine, Desc(dims_of(sum_.weights), memory::data_type::s8, canonical_), values_.data(), layout,
                         weights_memory_.as<void>());
    bias_ = memory(by_channel(channels), engine, bias_values_.data());
    factors_ = memory(by_channel(channels), engine, sum_.factors.data());
    if (kIsMadeWithFactors) step_.primitive = make_primitive(choose(engine, sum_, same_as(desc_)));
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
  std::vector<float> bias_values_;
  memory source_, weights_, bias_, factors_, destination_;
  std::uint64_t version_ = 0;  // of the parameters
};

}  // namespace

std::unique_ptr<Operation> make_int8_window(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Int8Window>(compile_context, node);
}

}  // namespace millrace::cpu
