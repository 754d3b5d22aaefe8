#include "executable.h"

#include <fmt/format.h>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

// Outputs read in addition to the result.
std::vector<LayerPort> read_outputs(const CompileContext& compile_context, bool training) {
  const CompileRequest& request = compile_context.options.request;
  return training ? request.loss_outputs(compile_context.network) : request.outputs;
}

}  // namespace

Executable::Executable(CompileContext& compile_context, const std::vector<Node>& nodes, std::int64_t samples, bool training)
    : compile_context_(compile_context),
      samples_(samples),
      plan_(compile_context.network, nodes, training, compile_context.type(), read_outputs(compile_context, training)) {
  for (const LayerPort value : compile_context.options.request.outputs) {
    if (!training) kept_.push_back({value, {}, nullptr});
  }
  const auto make = [this](const Node& node) { return make_operation(compile_context_, node); };
  plan_input();
  plan_.plan_forward(make, compile_context_.options.recompute);
  plan_.plan_outputs([this](LayerPort value) { return copied_bytes(value); });
  plan_kept_rows();
  plan_.plan_backward(make);
  plan_.place_tensors(kAlignment, compile_context_.options.share_memory);
}

void Executable::plan_input() {
  const ImageShape& image = compile_context_.network.input;
  constexpr int kMostChannels = 4;  // number of fill values in an augmentation record
  if (image.channels > kMostChannels) {
    fail(ErrorKind::usage, "backend 'cuda' takes images of at most {} channels, not {}", kMostChannels, image.channels);
  }
  Value& input = plan_.planner().value(Network::kInput);
  input.spec = {samples_, image.channels, image.height, image.width, compile_context_.type()};
  input.tensor = plan_.planner().tensor(input.spec.bytes());
}

std::size_t Executable::copied_bytes(LayerPort value) {
  const MapSpec& output = plan_.planner().value(value).spec;
  const bool converts = output.height * output.width == 1 && output.type != DataType::f32;
  measured_.push_back({.value = value, .converted = converts});
  return converts ? static_cast<std::size_t>(samples_ * output.pitch()) * sizeof(float) : 0;
}

void Executable::plan_kept_rows() {
  for (const Kept& kept : kept_) {
    const MapSpec& spec = plan_.planner().value(kept.value).spec;
    kept_rows_.push_back(plan_.planner().tensor(static_cast<std::size_t>(spec.rows() * spec.channels) * sizeof(float)));
  }
}

const Executable::Kept& Executable::kept(LayerPort value) const {
  for (const Kept& kept : kept_) {
    if (kept.value == value) return kept;
  }
  fail(ErrorKind::usage, "the output of {} is not kept: name it in CompileRequest::outputs",
       place_of(compile_context_.network.layers[static_cast<std::size_t>(value.layer)]));
}

std::vector<ArenaTensor> Executable::tensors() const {
  std::vector<ArenaTensor> result;
  const std::vector<Lifetime>& lifetimes = plan_.planner().lifetimes();
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes == 0) continue;
    result.push_back(
        {plan_.placement().offsets[i], lifetimes[i].bytes, lifetimes[i].first, lifetimes[i].last, fmt::format("tensor {}", i)});
  }
  return result;
}

void Executable::bind(std::byte* arena) {
  arena_ = arena;
  const Binding binding = plan_.bind(arena);
  const Planner& planner = plan_.planner();
  input_ = map_of(planner, binding, Network::kInput);
  bind_measured(binding);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    kept_[i].map = map_of(planner, binding, kept_[i].value);
    kept_[i].rows = binding.at<float>(kept_rows_[i]);
  }
}

void Executable::bind_measured(const Binding& binding) {
  for (std::size_t i = 0; i < measured_.size(); ++i) {
    Measured& measured = measured_[i];
    measured.made = map_of(plan_.planner(), binding, measured.value);
    MapSpec rows = measured.made.spec;
    rows.type = DataType::f32;
    measured.rows = {binding.at(plan_.measured()[i].rows), rows};
    if (!plan_.planner().training()) continue;
    measured.d_made = gradient_of(plan_.planner(), binding, measured.value);
    measured.d_rows = {binding.at(plan_.measured()[i].d_rows), rows};
  }
}

void Executable::begin(Queue& queue) {
  if (compile_context_.machine.checks()) compile_context_.machine.declare_arena(arena_, tensors());
  compile_context_.machine.set_time(queue, arena_, 0);
}

void Executable::forward(Queue& queue) {
  int time = 0;
  for (const auto& operation : plan_.operations()) {
    compile_context_.machine.set_time(queue, arena_, ++time);
    const StepTrace::Piece piece(trace(), queue, operation->layer().name, kForward);
    operation->at_layer([&] { operation->forward(queue); });
  }
  begin_loss(queue);
  for (const Measured& measured : measured_) {
    if (!measured.converted) continue;
    Bf16ToFloat kernel;
    kernel.from = measured.made.as<Bf16>();
    kernel.to = measured.rows.as<float>();
    kernel.packs = measured.made.spec.packs();
    queue.run(kernel);
  }
}

void Executable::begin_loss(Queue& queue) { compile_context_.machine.set_time(queue, arena_, plan_.loss_time()); }

void Executable::backward(Queue& queue, const std::function<void(int node)>& done) {
  begin_loss(queue);
  for (const Measured& measured : measured_) {
    if (!measured.converted) continue;
    FloatToBf16 kernel;
    kernel.from = measured.d_rows.as<float>();
    kernel.to = measured.d_made.as<Bf16>();
    kernel.packs = measured.d_made.spec.packs();
    queue.run(kernel);
  }
  int time = plan_.loss_time();
  for (const auto& step : plan_.steps()) {
    compile_context_.machine.set_time(queue, arena_, ++time);
    if (plan_.is_left_out(step)) continue;
    {
      Operation& operation = plan_.of_backward(step.node);
      const StepTrace::Piece piece(trace(), queue, operation.layer().name, kBackward);
      if (!step.recompute) plan_.each_zeros(step.node, [&](void* data, std::size_t bytes) { queue.zero(data, bytes); });
      operation.at_layer([&] { step.recompute ? operation.recompute(queue) : operation.backward(queue); });
    }
    if (!step.recompute) done(step.node);
  }
}

std::string Executable::describe() const {
  std::string text =
      fmt::format("cuda: {} of {} samples, arena {:.1f} MiB\n", plan_.planner().training() ? "training" : "inference", samples_,
                  static_cast<double>(arena_bytes()) / 1048576.0);
  for (const LayerTime& layer : plan_.layer_times()) {
    if (!layer.detail.empty()) text += fmt::format("  {:32} {}\n", layer.layer, layer.detail);
  }
  return text;
}

}  // namespace millrace::cuda
