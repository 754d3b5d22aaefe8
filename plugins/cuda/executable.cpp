#include "executable.h"

#include <fmt/format.h>

#include "millrace/error.h"

namespace millrace::cuda {
template <class Call>
void Executable::at_layer(const Operation& operation, const Call& call) const {
  try {
    call();
  } catch (Error& error) {
    throw error.in(fmt::format("layer '{}'", operation.layer().name));
  }
}

Executable::Executable(Workshop& workshop, const std::vector<Node>& nodes, std::int64_t samples, bool training)
    : workshop_(workshop), samples_(samples), planner_(training, workshop.network.layers.size()) {
  plan_values(nodes);
  for (const Node& node : nodes) {
    operations_.push_back(make_operation(workshop_, node));
    Operation& operation = *operations_.back();
    planner_.set_time(static_cast<int>(operations_.size()));
    at_layer(operation, [&] { operation.plan(planner_); });
  }
  planner_.set_time(static_cast<int>(nodes.size()) + 1);
  plan_logits();
  if (training) {
    plan_gradient_of_logits();
    for (auto operation = operations_.rbegin(); operation != operations_.rend(); ++operation) {
      planner_.set_time(planner_.time() + 1);
      if (!planner_.value((*operation)->node().output).needs_gradient) continue;
      at_layer(**operation, [&] { (*operation)->plan_backward(planner_); });
    }
  }
  placement_ = place(planner_.lifetimes(), kAlignment);
}

// The input, who reads what, and what needs a gradient.
void Executable::plan_values(const std::vector<Node>& nodes) {
  const Network& network = workshop_.network;
  for (const Node& node : nodes) {
    bool needs = trains_anything(network, workshop_.layer(node.layer));
    for (const int from : node.inputs) {
      ++planner_.value(from).readers;
      needs = needs || planner_.value(from).needs_gradient;
    }
    planner_.value(node.output).needs_gradient = needs && planner_.training();
    planner_.value(node.output).spec.type = node.output == final_linear(nodes) ? DataType::f32 : workshop_.type();
  }
  ++planner_.value(last_layer()).readers;

  Value& input = planner_.value(Network::kInput);
  constexpr int kMostChannels = 4;  // as many as an augmentation record has fill values for
  if (network.input.channels > kMostChannels) {
    fail(ErrorKind::usage, "backend 'cuda' takes images of at most {} channels, not {}", kMostChannels, network.input.channels);
  }
  input.spec = {samples_, network.input.channels, network.input.height, network.input.width, workshop_.type(), false};
  input.tensor = planner_.tensor(input.spec.bytes());
}

void Executable::plan_logits() {
  const Value& output = planner_.value(last_layer());
  if (output.spec.height * output.spec.width != 1) {
    fail(ErrorKind::usage,
         "the network's output is {} x {} x {}: backend 'cuda' needs one logit per class, such as a linear layer makes",
         output.spec.channels, output.spec.height, output.spec.width);
  }
  classes_ = output.spec.channels;
  converts_output_ = output.spec.type != DataType::f32;
  planner_.use(output.tensor);
  rows_ = output.tensor;
  if (converts_output_) rows_ = planner_.tensor(static_cast<std::size_t>(samples_ * output.spec.pitch()) * sizeof(float));
  planner_.use_at(rows_, planner_.training() ? last_time() : planner_.time());  // readable until the next pass
}

void Executable::plan_gradient_of_logits() {
  Value& output = planner_.value(last_layer());
  d_rows_ = planner_.tensor(static_cast<std::size_t>(samples_ * output.spec.pitch()) * sizeof(float));
  output.gradient = converts_output_ ? planner_.tensor(output.spec.bytes()) : d_rows_;
}

std::vector<ArenaTensor> Executable::tensors() const {
  std::vector<ArenaTensor> result;
  const std::vector<Lifetime>& lifetimes = planner_.lifetimes();
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes == 0) continue;
    result.push_back(
        {placement_.offsets[i], lifetimes[i].bytes, lifetimes[i].first, lifetimes[i].last, fmt::format("tensor {}", i)});
  }
  return result;
}

void Executable::bind(std::byte* arena) {
  arena_ = arena;
  const Binding binding{arena, placement_};
  for (const auto& operation : operations_) {
    at_layer(*operation, [&] { operation->bind(planner_, binding); });
  }
  input_ = map_of(planner_, binding, Network::kInput);
  output_ = map_of(planner_, binding, last_layer());
  logits_ = binding.at<float>(rows_);
  if (!planner_.training()) return;
  d_output_ = gradient_of(planner_, binding, last_layer());
  d_logits_ = binding.at<float>(d_rows_);
}

void Executable::begin(Queue& queue) {
  if (workshop_.machine.checks()) workshop_.machine.declare_arena(arena_, tensors());
  workshop_.machine.set_time(queue, arena_, 0);
}

void Executable::forward(Queue& queue) {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    workshop_.machine.set_time(queue, arena_, static_cast<int>(i) + 1);
    at_layer(*operations_[i], [&] { operations_[i]->forward(queue); });
  }
  begin_loss(queue);
  if (!converts_output_) return;
  Bf16ToFloat kernel;
  kernel.from = output_.as<Bf16>();
  kernel.to = logits_;
  kernel.packs = output_.spec.packs();
  queue.run(kernel);
}

void Executable::begin_loss(Queue& queue) { workshop_.machine.set_time(queue, arena_, static_cast<int>(operations_.size()) + 1); }

void Executable::backward(Queue& queue, const std::function<void(int node)>& done) {
  const int count = static_cast<int>(operations_.size());
  begin_loss(queue);
  if (converts_output_) {
    FloatToBf16 kernel;
    kernel.from = d_logits_;
    kernel.to = d_output_.as<Bf16>();
    kernel.packs = d_output_.spec.packs();
    queue.run(kernel);
  }
  for (int i = count; i-- > 0;) {
    workshop_.machine.set_time(queue, arena_, 2 * count + 1 - i);
    Operation& operation = *operations_[static_cast<std::size_t>(i)];
    at_layer(operation, [&] { operation.backward(queue); });
    done(i);
  }
}

std::string Executable::describe() const {
  std::string text = fmt::format("cuda: {} of {} samples, arena {:.1f} MiB\n", planner_.training() ? "training" : "inference",
                                 samples_, static_cast<double>(placement_.bytes) / 1048576.0);
  for (const auto& operation : operations_) text += fmt::format("  {:32} {}\n", operation->layer().name, operation->detail());
  return text;
}

}  // namespace millrace::cuda
