#include "weighted.h"

#include <fmt/format.h>

#include <exception>

#include "primitives.h"

namespace millrace::cpu {

using dnnl::memory;

namespace {
memory::desc as_it_lies(const memory::desc& operand) { return operand; }
memory::desc in_any(const memory::desc& operand) { return in_any_layout(operand); }
memory::desc in_float32(const memory::desc& operand) { return in_any_layout(operand, memory::data_type::f32); }
}  // namespace

WindowSum Weighted::sum_of(WindowSum::Pass pass, const Desc& source, const Desc& weights, const Desc& destination) const {
  WindowSum all = sum();
  all.pass = pass;
  all.forward_kind = forward_kind();
  all.source = source;
  all.weights = weights;
  all.destination = destination;
  const bool forward = pass == WindowSum::Pass::forward, by_weights = pass == WindowSum::Pass::weights;
  if (has_bias() && ((forward && !finishes_apart()) || (by_weights && trains(1) && !sums_bias_apart()))) {
    all.bias = {{layer().output[0]}, memory::data_type::f32, memory::format_tag::any};
  }
  return all;
}

Weighted::Choice Weighted::first_fast(const WindowSum& sum, std::initializer_list<Change> changes) const {
  std::optional<Choice> first;
  std::exception_ptr why_not;
  for (const Change change : changes) {
    Choice choice{sum, {}};
    for (Desc* operand : {&choice.sum.source, &choice.sum.weights, &choice.sum.destination}) *operand = change(*operand);
    try {
      choice.desc = choose(choice.sum);
    } catch (const dnnl::error&) {
      if (!why_not) why_not = std::current_exception();
      continue;
    }
    if (!is_slow(choice.desc)) return choice;
    if (!first) first = std::move(choice);
  }
  if (!first) std::rethrow_exception(why_not);
  return *first;
}

Weighted::PrimitiveDesc Weighted::first_right(const WindowSum& sum, std::initializer_list<Change> changes) const {
  for (;;) {  // wrong choices are not returned again
    const Choice choice = first_fast(sum, changes);
    if (compile_context_.checks.is_right(choice.sum, choice.desc)) return choice.desc;
  }
}

std::optional<Weighted::Choice> Weighted::in_own_type(const WindowSum& sum, std::initializer_list<Change> changes) const {
  try {
    for (;;) {
      Choice choice = first_fast(sum, changes);
      // A slow one only serves to find the operands' layouts, and hardly ever computes.
      if (is_slow(choice.desc) || compile_context_.checks.is_right(choice.sum, choice.desc)) return choice;
    }
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

std::optional<Weighted::Choice> Weighted::with_rest(Planner& planner, WindowSum sum) {
  const std::vector<LayerPort>& kept = compile_context_.options.request.outputs;
  const bool is_read = node_.output == network_.result().layer || std::ranges::count(kept, LayerPort(node_.output)) > 0;
  sum.relu = node_.activation == Activation::relu && !is_read;  // 2^-100 times a value is not for the user's eyes
  const bool leaves = node_.activation == Activation::relu && !sum.relu;
  if (node_.residual != kNoResidual && !leaves) {
    if (destination_desc(planner.value(node_.residual).spec) != sum.destination) return std::nullopt;
    sum.added = sum.destination;
  }
  if (!compile_context_.predicts() || finishes_apart() || (!sum.relu && sum.added.is_zero())) return std::nullopt;
  std::optional<Choice> choice = in_own_type(sum, {as_it_lies});
  fuses_ = choice && !is_slow(choice->desc);
  return fuses_ ? choice : std::nullopt;
}

// Weights and input have the network's layouts in the network's type; float32 copies belong to this operation alone.
void Weighted::choose_forward(Planner& planner, const Value& output) {
  const int parameter = layer().parameters[0];
  Value& from = planner.value(input());
  const bool free_input = from.tensor == kNoTensor;  // only the network's input has no tensor yet
  const Desc held_source = input() == Network::kInput ? compile_context_.input_desc : source_desc(from.spec);
  const Desc source = free_input ? in_any_layout(held_source) : held_source;
  const Desc destination = destination_desc(output.spec);
  const bool has_layout = norm_ == nullptr && compile_context_.parameters.layouts().has(parameter);
  const Desc weights = has_layout ? compile_context_.parameters.layouts().computed(parameter)
                                  : in_any_layout(canonical_weights(), to_dnnl(compile_context_.type()));
  const WindowSum sum = sum_of(WindowSum::Pass::forward, source, weights, destination);
  std::optional<Choice> own = with_rest(planner, sum);
  if (!own) own = in_own_type(sum, {as_it_lies, in_any});
  const PrimitiveDesc chosen = own && !is_slow(own->desc) ? own->desc : first_right(sum, {as_it_lies, in_float32});
  const Desc chosen_weights = chosen.query_md(dnnl::query::weights_md);
  if (norm_ != nullptr) {
    compile_context_.checks.require_right_copies(canonical_weights(), chosen_weights);
    folded_ = &compile_context_.parameters.prepare(
        layer(), norm_, layout_text(chosen_weights), chosen_weights.get_size(),
        [canonical = canonical_weights(), chosen_weights, engine = compile_context_.engine](const float* plain, void* to) {
          rearrange(canonical, plain, chosen_weights, to, engine);
        });
  } else if (!has_layout) {
    const Desc layout = own ? own->desc.query_md(dnnl::query::weights_md) : *in_type(canonical_weights(), type_of(weights));
    compile_context_.parameters.layouts().set(parameter, layout, canonical_weights());
  }
  if (free_input) {
    if (own) compile_context_.input_desc = own->desc.query_md(dnnl::query::src_md);
    from.tensor = planner.tensor(compile_context_.input_desc.get_size());
    planner.use_at(from.tensor, 0);
  }
  if (!computes_forward()) return;
  forward_.source.plan(planner, compile_context_.checks, free_input ? compile_context_.input_desc : held_source,
                       chosen.query_md(dnnl::query::src_md));
  forward_.destination.plan(planner, compile_context_.checks, destination, chosen.query_md(dnnl::query::dst_md));
  forward_.weights.plan(planner, compile_context_.checks,
                        norm_ != nullptr ? chosen_weights : compile_context_.parameters.layouts().computed(parameter),
                        chosen_weights);
  forward_.step.plan(planner, chosen);
}

void Weighted::plan(Planner& planner) {
  training_ = planner.training();
  samples_ = planner.value(input()).spec.n;
  Value& output = plan_output(planner, output_type(planner));
  choose_forward(planner, output);
  planner.use(planner.value(input()).tensor);
  if (node_.residual != kNoResidual) planner.use(planner.value(node_.residual).tensor);
  if (node_.activation == Activation::gelu) before_ = training_ ? planner.tensor(output.spec.bytes()) : output.tensor;
}

void Weighted::plan_backward(Planner& planner) {
  const Value& output = planner.value(node_.output);
  has_gradient_ = output.gradient != kNoTensor;
  if (!has_gradient_) return;
  planner.use(output.gradient);
  if (node_.activation == Activation::relu) planner.use(output.tensor);
  if (node_.activation == Activation::gelu) planner.use(before_);
  if (trains(0)) plan_weights(planner);
  if (planner.value(input()).needs_gradient) plan_data(planner);
}

// The gradient of the output has the output's type, which is float32 for logits; the computation uses the network's.
Weighted::Desc Weighted::computed_destination(const Planner& planner) const {
  MapSpec output = planner.value(node_.output).spec;
  output.type = compile_context_.type();
  return destination_desc(output);
}

void Weighted::plan_data(Planner& planner) {
  const Desc source = source_desc(planner.value(input()).spec);
  const Desc held_d_destination = destination_desc(planner.value(node_.output).spec);
  const Desc d_destination = computed_destination(planner);
  const Desc& held_weights = compile_context_.parameters.layouts().computed(layer().parameters[0]);
  const WindowSum sum = sum_of(WindowSum::Pass::data, source, in_any_layout(held_weights), d_destination);
  const PrimitiveDesc chosen = first_right(sum, {as_it_lies, in_any, in_float32});
  contribution_ = planner.contribute(input());
  data_.source.plan(planner, compile_context_.checks, source, chosen.query_md(dnnl::query::diff_src_md));
  data_.destination.plan(planner, compile_context_.checks, held_d_destination, chosen.query_md(dnnl::query::diff_dst_md));
  data_.weights.plan(planner, compile_context_.checks, held_weights, chosen.query_md(dnnl::query::weights_md));
  data_.step.plan(planner, chosen);
}

void Weighted::plan_weights(Planner& planner) {
  const Value& from = planner.value(input());
  planner.use(from.tensor);
  const Desc source = input() == Network::kInput ? compile_context_.input_desc : source_desc(from.spec);
  const Desc held_d_destination = destination_desc(planner.value(node_.output).spec);
  const Desc d_destination = computed_destination(planner);
  const WindowSum sum = sum_of(WindowSum::Pass::weights, source, in_any_layout(canonical_weights()), d_destination);
  const PrimitiveDesc chosen = first_right(sum, {as_it_lies, in_any, in_float32});
  weights_.source.plan(planner, compile_context_.checks, source, chosen.query_md(dnnl::query::src_md));
  weights_.destination.plan(planner, compile_context_.checks, held_d_destination, chosen.query_md(dnnl::query::diff_dst_md));
  weights_.weights.plan(planner, compile_context_.checks, compile_context_.parameters.layouts().held(layer().parameters[0]),
                        chosen.query_md(dnnl::query::diff_weights_md));
  weights_.step.plan(planner, chosen);
}

void Weighted::Product::bind(const Binding& binding, const dnnl::engine& engine, void* sources, void* filters, void* results) {
  source.bind(engine, binding, sources);
  weights.bind(engine, binding, filters);
  destination.bind(engine, binding, results);
  step.bind(binding, engine);
}

void Weighted::bind(const Planner& planner, const Binding& binding) {
  const dnnl::engine& engine = compile_context_.engine;
  const Value& from = planner.value(input());
  const Value& to = planner.value(node_.output);
  void* const result = binding.at(before_ == kNoTensor ? to.tensor : before_);
  output_ = to.spec.map(binding.at(to.tensor));
  pre_activation_ = to.spec.map(result);
  if (node_.residual != kNoResidual) residual_ = map_of(planner, binding, node_.residual);
  const Desc bias({layer().output[0]}, memory::data_type::f32, memory::format_tag::a);
  if (forward_) {
    const int parameter = layer().parameters[0];
    void* const weights = folded_ != nullptr ? folded_->weights : compile_context_.parameters.computed_value(parameter);
    forward_.bind(binding, engine, binding.at(from.tensor), weights, result);
    if (sums_apart()) zeros_.assign(static_cast<std::size_t>(layer().output[0]), 0.0F);
    arguments_ = {{DNNL_ARG_SRC, forward_.source.memory()},
                  {DNNL_ARG_WEIGHTS, forward_.weights.memory()},
                  {DNNL_ARG_DST, forward_.destination.memory()},
                  {DNNL_ARG_SCRATCHPAD, forward_.step.scratch_memory}};
    if (has_bias() && !finishes_apart())
      arguments_.emplace(DNNL_ARG_BIAS, memory(bias, engine, const_cast<float*>(this->bias())));
    if (fuses_ && node_.residual != kNoResidual)
      arguments_.emplace(kAddedArgument, memory(destination_desc(to.spec), engine, residual_.data));
  }
  if (!has_gradient_) return;

  d_output_ = to.spec.map(binding.at(to.gradient));
  if (has_bias() && trains(1)) d_bias_ = memory(bias, engine, gradient(1));
  if (data_) {
    d_input_ = target_of(planner, binding, input(), contribution_);
    data_.bind(binding, engine, d_input_.written.data, compile_context_.parameters.computed_value(layer().parameters[0]),
               d_output_.data);
  }
  if (weights_) weights_.bind(binding, engine, binding.at(from.tensor), gradient(0), d_output_.data);
}

void Weighted::forward(const Pass&) {
  dnnl::stream& stream = compile_context_.stream;
  if (folded_ != nullptr) compile_context_.parameters.refresh(*folded_, compile_context_.engine);
  forward_.source.load(stream);
  forward_.weights.load(stream);
  forward_.step.primitive.execute(stream, arguments_);
  forward_.destination.store(stream);
  if (sums_apart()) finish();
  const bool relu_is_done = sums_apart() || fuses_;
  const bool is_left = node_.activation == Activation::relu ? !relu_is_done : node_.activation != Activation::none;
  if (is_left) kernels().activate(node_.activation, pre_activation_, output_);
}

// Adds bias and residual, and applies a ReLU in the same pass: as a normalisation with mean 0 and with variance and epsilon that
// sum to 1, also for the padding after the last channel.
void Weighted::finish() const {
  const bool relu = node_.activation == Activation::relu, adds_bias = has_bias() && finishes_apart();
  if (!adds_bias && !relu && node_.residual == kNoResidual) return;
  NormaliseArguments arguments;
  arguments.x = arguments.y = pre_activation_;
  arguments.mean = arguments.variance = zeros_.data();
  arguments.epsilon = 1;
  arguments.shift = adds_bias ? value(1) : nullptr;
  arguments.residual = node_.residual != kNoResidual ? &residual_ : nullptr;
  arguments.activation = relu ? Activation::relu : Activation::none;
  kernels().normalise(arguments);
}

void Weighted::recompute(const Pass& pass) {
  if (computes_forward()) forward(pass);
}

void Weighted::backward(const Pass&) {
  if (!has_gradient_) return;
  dnnl::stream& stream = compile_context_.stream;
  const bool bias_apart = has_bias() && trains(1) && (sums_bias_apart() || !weights_);
  if (node_.activation != Activation::none || bias_apart) {
    const bool wanted = node_.activation != Activation::none && (weights_ || data_);
    const Map& before = node_.activation == Activation::none ? d_output_ : pre_activation_;
    kernels().activate_backward(node_.activation, before, d_output_, wanted ? &d_output_ : nullptr,
                                bias_apart ? gradient(1) : nullptr);
  }
  if (weights_) {
    weights_.source.load(stream);
    weights_.destination.load(stream);
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, weights_.source.memory()},
                                                 {DNNL_ARG_DIFF_DST, weights_.destination.memory()},
                                                 {DNNL_ARG_DIFF_WEIGHTS, weights_.weights.memory()},
                                                 {DNNL_ARG_SCRATCHPAD, weights_.step.scratch_memory}};
    if (has_bias() && trains(1) && !bias_apart) arguments.emplace(DNNL_ARG_DIFF_BIAS, d_bias_);
    weights_.step.primitive.execute(stream, arguments);
    weights_.weights.store(stream);
  }
  if (data_) {
    data_.weights.load(stream);
    data_.destination.load(stream);
    data_.step.primitive.execute(stream, {{DNNL_ARG_DIFF_SRC, data_.source.memory()},
                                          {DNNL_ARG_WEIGHTS, data_.weights.memory()},
                                          {DNNL_ARG_DIFF_DST, data_.destination.memory()},
                                          {DNNL_ARG_SCRATCHPAD, data_.step.scratch_memory}});
    data_.source.store(stream);
    d_input_.finish();
  }
}

std::string Weighted::detail() const {
  const auto name = [](const Product& product) { return product ? product.step.desc.impl_info_str() : "-"; };
  // If the output is kept, only the first operation ran forward.
  const auto* const first_one = static_cast<const Weighted*>(first());
  return fmt::format("{} | {} | {}", name(forward_ || !first_one ? forward_ : first_one->forward_), name(data_), name(weights_));
}

}  // namespace millrace::cpu
