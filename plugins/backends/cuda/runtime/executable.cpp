#include "executable.h"

#include <fmt/format.h>

#include <set>

#include "millrace/error.h"
#include "millrace/segments.h"

namespace millrace::cuda {
template <class Call>
void Executable::at_layer(const Operation& operation, const Call& call) const {
  try {
    call();
  } catch (Error& error) {
    throw error.in(place_of(operation.layer()));
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
  if (training) plan_steps(nodes);
  planner_.set_time(loss_time());
  plan_output();
  if (training) {
    plan_gradient_of_output();
    plan_backward(nodes);
  }
  placement_ = place(planner_.lifetimes(), kAlignment);
}

void Executable::plan_steps(const std::vector<Node>& nodes) {
  const int count = static_cast<int>(nodes.size());
  segment_ends_ = {count};
  if (workshop_.options.recompute) {
    std::vector<std::size_t> bytes;
    for (const Node& node : nodes) bytes.push_back(planner_.value(node.output).spec.bytes());
    segment_ends_ = plan_segments(nodes, bytes);
  }
  kept_ = kept_outputs(nodes, segment_ends_);
  again_.resize(nodes.size());
  tensors_of_again_.resize(nodes.size());
  left_out_.resize(nodes.size());
  for (std::size_t segment = segment_ends_.size(); segment-- > 0;) {
    const int begin = segment == 0 ? 0 : segment_ends_[segment - 1], end = segment_ends_[segment];
    if (end != count) {
      for (int node = begin; node < end; ++node) backward_.push_back({true, node});
    }
    for (int node = end; node-- > begin;) backward_.push_back({false, node});
  }
}

void Executable::plan_backward(const std::vector<Node>& nodes) {
  if (segment_ends_.size() > 1) forward_planner_ = std::make_unique<Planner>(planner_);
  for (std::size_t segment = segment_ends_.size(); segment-- > 0;) {
    const int begin = segment == 0 ? 0 : segment_ends_[segment - 1], end = segment_ends_[segment];
    const bool again = segment + 1 < segment_ends_.size();
    if (again) plan_segment_again(nodes, begin, end);
    const int recomputed = planner_.time();
    const std::size_t tensors = planner_.lifetimes().size();
    for (int node = end; node-- > begin;) {
      planner_.set_time(planner_.time() + 1);
      if (!planner_.value(nodes[static_cast<std::size_t>(node)].output).needs_gradient) continue;
      Operation& operation = of_backward(node);
      at_layer(operation, [&] { operation.plan_backward(planner_); });
    }
    if (again) leave_out_what_nobody_needs(begin, end, recomputed, tensors);
  }
}

void Executable::plan_segment_again(const std::vector<Node>& nodes, int begin, int end) {
  for (int node = begin; node < end; ++node) {
    const auto at = static_cast<std::size_t>(node);
    planner_.set_time(planner_.time() + 1);
    tensors_of_again_[at] = static_cast<TensorId>(planner_.lifetimes().size());
    again_[at] = make_operation(workshop_, nodes[at]);
    Operation& operation = *again_[at];
    operation.follow(*operations_[at], kept_[at]);
    at_layer(operation, [&] { operation.plan(planner_); });
  }
}

// A node is computed anew only if backward uses something that it makes, or another node that is does.
void Executable::leave_out_what_nobody_needs(int begin, int end, int recomputed, std::size_t end_of_plan) {
  std::set<int> read;  // outputs that are wanted
  for (int node = end; node-- > begin;) {
    const auto at = static_cast<std::size_t>(node);
    const Node& what = again_[at]->node();
    bool needed = !kept_[at] && read.contains(what.output);
    for (auto tensor = static_cast<std::size_t>(tensors_of_again_[at]); tensor < end_of_plan; ++tensor) {
      needed = needed || planner_.lifetimes()[tensor].last > recomputed;
    }
    end_of_plan = static_cast<std::size_t>(tensors_of_again_[at]);
    left_out_[at] = !needed;
    if (needed) read.insert(what.inputs.begin(), what.inputs.end());
  }
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
  input.spec = {samples_, network.input.channels, network.input.height, network.input.width, workshop_.type()};
  input.tensor = planner_.tensor(input.spec.bytes());
}

void Executable::plan_output() {
  const Value& output = planner_.value(last_layer());
  converts_output_ = output.spec.height * output.spec.width == 1 && output.spec.type != DataType::f32;
  planner_.use(output.tensor);
  rows_ = converts_output_ ? planner_.tensor(row_bytes()) : output.tensor;
  planner_.use_at(rows_, planner_.training() ? last_time() : planner_.time());  // readable until the next pass
}

void Executable::plan_gradient_of_output() {
  Value& output = planner_.value(last_layer());
  if (converts_output_) d_rows_ = planner_.tensor(row_bytes());
  output.gradient = planner_.tensor(output.spec.bytes());
}

std::size_t Executable::row_bytes() const {
  return static_cast<std::size_t>(samples_ * planner_.value(last_layer()).spec.pitch()) * sizeof(float);
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
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const bool repeated = !again_.empty() && again_[i] != nullptr;
    at_layer(*operations_[i], [&] { operations_[i]->bind(repeated ? *forward_planner_ : planner_, binding); });
    if (repeated) at_layer(*again_[i], [&] { again_[i]->bind(planner_, binding); });
  }
  input_ = map_of(planner_, binding, Network::kInput);
  output_ = map_of(planner_, binding, last_layer());
  MapSpec rows = output_.spec;
  rows.type = DataType::f32;
  rows_map_ = {binding.at(rows_), rows};
  if (!planner_.training()) return;
  d_output_ = gradient_of(planner_, binding, last_layer());
  d_rows_map_ = {binding.at(d_rows_), rows};
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
  kernel.to = rows_map_.as<float>();
  kernel.packs = output_.spec.packs();
  queue.run(kernel);
}

void Executable::begin_loss(Queue& queue) { workshop_.machine.set_time(queue, arena_, loss_time()); }

void Executable::backward(Queue& queue, const std::function<void(int node)>& done) {
  begin_loss(queue);
  if (converts_output_) {
    FloatToBf16 kernel;
    kernel.from = d_rows_map_.as<float>();
    kernel.to = d_output_.as<Bf16>();
    kernel.packs = d_output_.spec.packs();
    queue.run(kernel);
  }
  int time = loss_time();
  for (const Step& step : backward_) {
    workshop_.machine.set_time(queue, arena_, ++time);
    Operation& operation = of_backward(step.node);
    if (!step.recompute) {
      at_layer(operation, [&] { operation.backward(queue); });
      done(step.node);
    } else if (!left_out_[static_cast<std::size_t>(step.node)]) {
      at_layer(operation, [&] { operation.recompute(queue); });
    }
  }
}

std::string Executable::describe() const {
  std::string text = fmt::format("cuda: {} of {} samples, arena {:.1f} MiB\n", planner_.training() ? "training" : "inference",
                                 samples_, static_cast<double>(placement_.bytes) / 1048576.0);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const bool repeated = !again_.empty() && again_[i] != nullptr;
    std::string detail = (repeated ? again_ : operations_)[i]->detail();
    if (repeated && !left_out_[i]) detail += detail.empty() ? "computed again" : ", computed again";
    if (!detail.empty()) text += fmt::format("  {:32} {}\n", operations_[i]->layer().name, detail);
  }
  return text;
}

}  // namespace millrace::cuda
