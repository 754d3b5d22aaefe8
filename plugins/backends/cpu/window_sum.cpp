#include "window_sum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "primitives.h"

namespace millrace::cpu {

using dnnl::memory;
using Base = dnnl::primitive_desc_base;

namespace {

// The implementations of a primitive desc, in oneDNN's order.
template <class Desc>
Base first_allowed(Desc desc, const Pick& pick) {
  while (pick && !pick(desc)) {
    if (!desc.next_impl())
      throw dnnl::error(dnnl_unimplemented, "no implementation is left that computes this rightly on this processor");
  }
  return desc;
}

// oneDNN requires the forward primitive of a backward one. Convolutions do not use it.
WindowSum forward_of(const WindowSum& sum) {
  WindowSum forward = sum;
  forward.pass = WindowSum::Pass::forward;
  forward.bias = forward.added = memory::desc();
  forward.relu = false;
  const memory::data_type type = type_of(sum.destination);
  for (memory::desc* operand : {&forward.source, &forward.weights, &forward.destination}) {
    *operand = in_any_layout(*operand, type);
  }
  return forward;
}

Description<dnnl::convolution_forward> describe_forward(const dnnl::engine& engine, const WindowSum& s) {
  return describe<dnnl::convolution_forward>(engine, attributes(s.added, s.relu), s.forward_kind, s.how, s.source, s.weights,
                                             s.bias, s.destination, s.strides, s.dilates, s.before, s.after);
}

Base describe_convolution(const dnnl::engine& engine, const WindowSum& s, const Pick& pick) {
  if (s.pass == WindowSum::Pass::forward) return first_allowed(describe_forward(engine, s), pick);
  const auto forward = describe_forward(engine, forward_of(s));
  if (s.pass == WindowSum::Pass::data) {
    return first_allowed(describe_backward<dnnl::convolution_backward_data>(
                             engine, forward, s.how, s.source, s.weights, s.destination, s.strides, s.dilates, s.before, s.after),
                         pick);
  }
  return first_allowed(
      describe_backward<dnnl::convolution_backward_weights>(engine, forward, s.how, s.source, s.weights, s.bias, s.destination,
                                                            s.strides, s.dilates, s.before, s.after),
      pick);
}

Description<dnnl::deconvolution_forward> describe_transposed_forward(const dnnl::engine& engine, const WindowSum& s) {
  return describe<dnnl::deconvolution_forward>(engine, attributes(), s.forward_kind, s.how, s.source, s.weights, s.destination,
                                               s.strides, s.dilates, s.before, s.after);
}

Base describe_transposed(const dnnl::engine& engine, const WindowSum& s, const Pick& pick) {
  if (s.pass == WindowSum::Pass::forward) return first_allowed(describe_transposed_forward(engine, s), pick);
  const auto forward = describe_transposed_forward(engine, forward_of(s));
  if (s.pass == WindowSum::Pass::data) {
    return first_allowed(describe_backward<dnnl::deconvolution_backward_data>(
                             engine, forward, s.how, s.source, s.weights, s.destination, s.strides, s.dilates, s.before, s.after),
                         pick);
  }
  return first_allowed(describe_backward<dnnl::deconvolution_backward_weights>(
                           engine, forward, s.how, s.source, s.weights, s.destination, s.strides, s.dilates, s.before, s.after),
                       pick);
}

Description<dnnl::inner_product_forward> describe_linear_forward(const dnnl::engine& engine, const WindowSum& s) {
  return describe<dnnl::inner_product_forward>(engine, attributes(s.added, s.relu), s.forward_kind, s.source, s.weights, s.bias,
                                               s.destination);
}

Base describe_linear(const dnnl::engine& engine, const WindowSum& s, const Pick& pick) {
  if (s.pass == WindowSum::Pass::forward) return first_allowed(describe_linear_forward(engine, s), pick);
  const auto forward = describe_linear_forward(engine, forward_of(s));
  if (s.pass == WindowSum::Pass::data) {
    return first_allowed(
        describe_backward<dnnl::inner_product_backward_data>(engine, forward, s.source, s.weights, s.destination), pick);
  }
  return first_allowed(
      describe_backward<dnnl::inner_product_backward_weights>(engine, forward, s.source, s.weights, s.bias, s.destination), pick);
}

}  // namespace

Base describe(const dnnl::engine& engine, const WindowSum& sum, const Pick& pick) {
  switch (sum.layer) {
    case WindowSum::Layer::convolution: return describe_convolution(engine, sum, pick);
    case WindowSum::Layer::transposed_convolution: return describe_transposed(engine, sum, pick);
    case WindowSum::Layer::linear: return describe_linear(engine, sum, pick);
    case WindowSum::Layer::product:
      return first_allowed(describe<dnnl::matmul>(engine, attributes(), sum.source, sum.weights, sum.destination), pick);
  }
  return {};
}

WindowSum as_chosen(WindowSum sum, const Base& chosen) {
  using dnnl::query;
  const bool forward = sum.pass == WindowSum::Pass::forward, data = sum.pass == WindowSum::Pass::data;
  const query weights = sum.pass == WindowSum::Pass::weights ? query::diff_weights_md : query::weights_md;
  sum.source = chosen.query_md(data ? query::diff_src_md : query::src_md);
  sum.weights = chosen.query_md(weights);
  sum.destination = chosen.query_md(forward ? query::dst_md : query::diff_dst_md);
  if (!sum.bias.is_zero()) sum.bias = chosen.query_md(weights, 1);
  return sum;
}

WindowSum of_first(WindowSum sum, memory::dim samples) {
  for (memory::desc* map : {&sum.source, &sum.destination, &sum.added}) {
    if (map->is_zero()) continue;
    memory::dims dims = dims_of(*map);
    dims[0] = samples;
    *map = map->submemory_desc(dims, memory::dims(dims.size(), 0));
  }
  return sum;
}

std::string to_text(const WindowSum& sum) {
  static constexpr const char* kLayers[] = {"convolution", "transposed convolution", "linear layer", "product"};
  static constexpr const char* kPasses[] = {"forward", "gradient of the input", "gradient of the weights"};
  std::string text = fmt::format(
      "{} of a {} in {}: {} -> {}, weights {}", kPasses[static_cast<int>(sum.pass)], kLayers[static_cast<int>(sum.layer)],
      type_of(sum.destination) == memory::data_type::bf16 ? "bf16" : "float32", fmt::join(dims_of(sum.source), "x"),
      fmt::join(dims_of(sum.destination), "x"), fmt::join(dims_of(sum.weights), "x"));
  if (sum.strides.empty()) return text;
  memory::dims dilations = sum.dilates;
  for (memory::dim& dilation : dilations) ++dilation;  // in the usual convention
  return text + fmt::format(", stride {}, dilation {}, padding {} and {}", fmt::join(sum.strides, "x"), fmt::join(dilations, "x"),
                            fmt::join(sum.before, "x"), fmt::join(sum.after, "x"));
}

std::string layout_text(const memory::desc& desc) {
  if (desc.is_zero()) return "none";
  const Strides strides = strides_of(desc);
  std::string text =
      fmt::format("{},{}", type_of(desc) == memory::data_type::bf16 ? "bf16" : "f32", fmt::join(strides.strides, ","));
  if (!strides.blocked) return text;
  for (const auto& axis : offsets_of(desc)) {  // the offsets of each axis's first elements show how blocks are nested
    std::uint64_t sum = 0;                     // may restart at 0
    for (std::size_t i = 1; i < std::min<std::size_t>(axis.size(), 65); ++i) sum = 31 * sum + static_cast<std::uint64_t>(axis[i]);
    text += fmt::format("/{}", sum);
  }
  return text;
}

std::string key_of(const WindowSum& sum) {
  return fmt::format("{}; {} {} {}{}{}{}{}", to_text(sum), layout_text(sum.source), layout_text(sum.weights),
                     layout_text(sum.destination), sum.forward_kind == dnnl::prop_kind::forward_inference ? " inference" : "",
                     sum.bias.is_zero() ? "" : " bias", sum.added.is_zero() ? "" : " added", sum.relu ? " relu" : "");
}

}  // namespace millrace::cpu
