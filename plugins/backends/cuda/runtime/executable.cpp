#include "executable.h"

#include <fmt/format.h>

#include "millrace/error.h"

namespace millrace::cuda {

Executable::Executable(CompileContext& compile_context, const std::vector<Node>& nodes, std::int64_t samples, bool training)
    : compile_context_(compile_context),
      samples_(samples),
      plan_(compile_context.network, nodes, training, compile_context.type(), compile_context.options.request) {
  const auto make = [this](const Node& node) { return make_operation(compile_context_, node); };
  plan_input();
  plan_.plan_forward(make, compile_context_.options.recompute);
  plan_.plan_outputs([this](LayerPort value) {
    const MapSpec& output = plan_.planner().value(value).spec;
    const bool converts = output.height * output.width == 1 && output.type != DataType::f32;
    return converts ? static_cast<std::size_t>(samples_ * output.pitch()) * sizeof(float) : 0;
  });
  for (const LayerPort value : plan_.kept()) {
    const MapSpec& spec = plan_.planner().value(value).spec;
    kept_rows_.push_back(plan_.planner().tensor(static_cast<std::size_t>(spec.rows() * spec.channels) * sizeof(float)));
  }
  plan_.plan_backward(make);
  plan_.place_tensors(kAlignment, compile_context_.options.share_memory);
}

void Executable::plan_input() {
  const ImageShape& image = compile_context_.network.input;
  constexpr int kMaxChannels = 4;  // number of fill values in an augmentation record
  if (image.channels > kMaxChannels) {
    fail(ErrorKind::usage, "backend 'cuda' takes images of at most {} channels, not {}", kMaxChannels, image.channels);
  }
  Value& input = plan_.planner().value(Network::kInput);
  input.spec = {samples_, image.channels, image.height, image.width, compile_context_.type()};
  input.tensor = plan_.planner().tensor(input.spec.bytes());
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
  recorded = {};
  const Binding binding = plan_.bind(arena, [](const Map& made, void* data) {
    Map rows{data, made.spec};
    rows.spec.type = DataType::f32;
    return rows;
  });
  input_ = map_of(plan_.planner(), binding, Network::kInput);
  kept_.clear();
  for (std::size_t i = 0; i < kept_rows_.size(); ++i) {
    kept_.push_back({map_of(plan_.planner(), binding, plan_.kept()[i]), binding.at<float>(kept_rows_[i])});
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
    const DeviceMeter::Piece piece(meter(), queue, operation->layer().name, kForward);
    operation->at_layer([&] { operation->forward(queue); });
  }
  begin_loss(queue);
  for (const auto& measured : plan_.measured()) {
    if (!measured.copied) continue;
    queue.run(
        Bf16ToFloat{.from = measured.made.as<Bf16>(), .to = measured.rows.as<float>(), .packs = measured.made.spec.packs()});
  }
}

void Executable::begin_loss(Queue& queue) { compile_context_.machine.set_time(queue, arena_, plan_.loss_time()); }

void Executable::backward(Queue& queue, const std::function<void(int node)>& done) {
  begin_loss(queue);
  for (const auto& measured : plan_.measured()) {
    if (!measured.copied) continue;
    queue.run(FloatToBf16{
        .from = measured.d_rows.as<float>(), .to = measured.d_made.as<Bf16>(), .packs = measured.d_made.spec.packs()});
  }
  int time = plan_.loss_time();
  for (const auto& step : plan_.steps()) {
    compile_context_.machine.set_time(queue, arena_, ++time);
    if (plan_.is_left_out(step)) continue;
    {
      Operation& operation = plan_.of_backward(step.node);
      const DeviceMeter::Piece piece(meter(), queue, operation.layer().name, kBackward);
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
