#include "rearranged.h"

#include <fmt/format.h>

#include "primitives.h"

namespace millrace::cpu {

using dnnl::memory;

namespace {
constexpr auto kHow = dnnl::algorithm::convolution_direct;
const memory::dims kDense = {0, 0};  // dilation
}  // namespace

void RearrangedConvolution::Copy::bind(const Binding& binding, const dnnl::engine& engine, const MapSpec& spec) {
  if (tensor == kNoTensor) return;
  map = spec.map(binding.at(tensor));
  memory = dnnl::memory(spec.desc(), engine, map.data);
}

std::string RearrangedConvolution::detail() const {
  const auto name_of = [](const Step& step) { return step ? step.desc.impl_info_str() : "-"; };
  return fmt::format("{}: {} | {} | {}", name(), name_of(forward_), name_of(data_), name_of(weights_));
}

void RearrangedConvolution::plan_forward(Planner& planner) {
  const PrimitiveDesc chosen = choose_forward(planner);
  forward_x_.plan(planner, arrangement_.x);
  forward_y_.plan(planner, arrangement_.y);
  kernel_.plan(planner, compile_context_.checks, computed_weights(), chosen.query_md(dnnl::query::weights_md));
  forward_.plan(planner, chosen);
}

void RearrangedConvolution::plan_weights(Planner& planner) {
  arrange_maps(planner);
  const PrimitiveDesc chosen = compile_context_.checks.first_right(
      compile_context_.engine, sum_of(WindowSum::Pass::weights, in_any_layout(canonical_weights())));
  backward_x_.plan(planner, arrangement_.x);
  backward_dy_.plan(planner, arrangement_.y);
  d_kernel_.plan(planner, compile_context_.checks, compile_context_.parameters.layouts().held(layer().parameters[0]),
                 chosen.query_md(dnnl::query::diff_weights_md));
  weights_.plan(planner, chosen);
}

void RearrangedConvolution::plan_data(Planner& planner) {
  arrange_maps(planner);
  const PrimitiveDesc chosen = compile_context_.checks.first_right(
      compile_context_.engine, sum_of(WindowSum::Pass::data, in_any_layout(computed_weights())));
  if (!trains(0)) backward_dy_.plan(planner, arrangement_.y);
  backward_dx_.plan(planner, arrangement_.x);
  data_kernel_.plan(planner, compile_context_.checks, computed_weights(), chosen.query_md(dnnl::query::weights_md));
  data_.plan(planner, chosen);
}

void RearrangedConvolution::bind_scratch(const Binding& binding) {
  const dnnl::engine& engine = compile_context_.engine;
  for (Copy* copy : {&forward_x_, &backward_x_, &backward_dx_}) copy->bind(binding, engine, arrangement_.x);
  for (Copy* copy : {&forward_y_, &backward_dy_}) copy->bind(binding, engine, arrangement_.y);
  if (forward_) kernel_.bind(engine, binding, held_weights());
  if (data_) data_kernel_.bind(engine, binding, held_weights());
  if (weights_) d_kernel_.bind(engine, binding, gradient(0));
  for (Step* step : {&forward_, &data_, &weights_}) step->bind(binding, engine);
}

void RearrangedConvolution::convolve(const Map& x, const float* bias, bool relu, const Map& y) {
  to_arranged(x, stride(), forward_x_.map);
  kernel_.load(compile_context_.stream);
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, forward_x_.memory},
                                               {DNNL_ARG_WEIGHTS, kernel_.memory()},
                                               {DNNL_ARG_DST, forward_y_.memory},
                                               {DNNL_ARG_SCRATCHPAD, forward_.scratch_memory}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(bias_desc(), compile_context_.engine, const_cast<float*>(bias)));
  forward_.primitive.execute(compile_context_.stream, arguments);
  from_arranged(forward_y_.map, 1, y);
  if (relu) kernels().activate(Activation::relu, y, y);
}

void RearrangedConvolution::convolve_backward_weights(const Map& x, const Map& dy, float*) {
  to_arranged(x, stride(), backward_x_.map);
  to_arranged(dy, 1, backward_dy_.map);
  weights_.primitive.execute(compile_context_.stream, {{DNNL_ARG_SRC, backward_x_.memory},
                                                       {DNNL_ARG_DIFF_DST, backward_dy_.memory},
                                                       {DNNL_ARG_DIFF_WEIGHTS, d_kernel_.memory()},
                                                       {DNNL_ARG_SCRATCHPAD, weights_.scratch_memory}});
  d_kernel_.store(compile_context_.stream);
}

void RearrangedConvolution::convolve_backward_data(const Map& dy, const Map& dx) {
  if (!weights_) to_arranged(dy, 1, backward_dy_.map);
  data_kernel_.load(compile_context_.stream);
  data_.primitive.execute(compile_context_.stream, {{DNNL_ARG_DIFF_DST, backward_dy_.memory},
                                                    {DNNL_ARG_WEIGHTS, data_kernel_.memory()},
                                                    {DNNL_ARG_DIFF_SRC, backward_dx_.memory},
                                                    {DNNL_ARG_SCRATCHPAD, data_.scratch_memory}});
  from_arranged(backward_dx_.map, stride(), dx);
}

WindowSum RearrangedConvolution::sum_of(WindowSum::Pass pass, const memory::desc& weights) const {
  const auto& [x, y, strides, before, after] = arrangement_;
  WindowSum sum{.pass = pass, .how = kHow, .strides = strides, .dilates = kDense, .before = before, .after = after};
  sum.source = x.desc();
  sum.weights = weights;
  sum.destination = y.desc();
  if (pass == WindowSum::Pass::forward) {
    if (layer().parameters.size() > 1) sum.bias = bias_desc();
  }
  return sum;
}

void RearrangedConvolution::arrange_maps(const Planner& planner) {
  arrangement_ = arrange(planner.value(input()).spec, planner.value(node_.output).spec);
}

RearrangedConvolution::PrimitiveDesc RearrangedConvolution::choose_forward(const Planner& planner) {
  arrange_maps(planner);
  const int parameter = layer().parameters[0];
  const bool known = compile_context_.parameters.layouts().has(parameter);
  const auto with = [&](const memory::desc& weights) {
    return compile_context_.checks.first_right(compile_context_.engine, sum_of(WindowSum::Pass::forward, weights));
  };
  const memory::desc any = in_any_layout(canonical_weights(), to_dnnl(compile_context_.type()));
  PrimitiveDesc chosen = with(known ? computed_weights() : any);
  if (known && is_slow_convolution(chosen)) chosen = with(any);  // another batch size has chosen the weights' layout
  if (!known) compile_context_.parameters.layouts().set(parameter, chosen.query_md(dnnl::query::weights_md), canonical_weights());
  return chosen;
}

memory::desc RearrangedConvolution::bias_desc() const {
  return {{layer().output[0]}, memory::data_type::f32, memory::format_tag::a};
}
memory::desc RearrangedConvolution::canonical_weights() const {
  const Shape& shape = parameter_shape(0);  // (out, in, height, width)
  return {{shape[0], shape[1], shape[2], shape[3]}, memory::data_type::f32, memory::format_tag::oihw};
}
const memory::desc& RearrangedConvolution::computed_weights() const {
  return compile_context_.parameters.layouts().computed(layer().parameters[0]);
}
void* RearrangedConvolution::held_weights() const { return compile_context_.parameters.computed_value(layer().parameters[0]); }

}  // namespace millrace::cpu
