#include "drawn_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "millrace/detail/types.h"
#include "millrace/error.h"

namespace millrace::generator {

namespace {

constexpr std::int64_t kMaxValues = 1 << 14;  // in an output: small networks run fast
constexpr int kMaxLayers = 8, kTries = 24;

Meanings layer_meanings() {
  const auto initialiser = [](Draw& draw) -> std::optional<Value> {
    static const std::vector<std::string> kRules = {"constant",          "uniform",       "normal",     "he_normal",
                                                    "he_normal_fan_out", "glorot_normal", "he_uniform", "glorot_uniform",
                                                    "fan_in_uniform",    "dirac"};
    if (draw.chance(0.2)) return Value(draw.uniform(-0.5, 0.5));
    return Value(pick(draw, kRules));
  };
  Meanings meanings;
  meanings["*.initialiser"] = meanings["*.bias_initialiser"] = initialiser;
  meanings["*.padding"] = [](Draw& draw) -> std::optional<Value> {
    const auto side = [&] { return Value(draw.integer(0, 3)); };
    switch (draw.integer(0, 4)) {
      case 0: return side();
      case 1: return Value(Array{side(), side()});
      case 2: return Value(Array{side(), side(), side(), side()});
      case 3: return Value("valid");
      default: return Value("same");
    }
  };
  meanings["*.kernel"] = [](Draw& draw) -> std::optional<Value> {
    return draw.chance(0.5) ? Value(draw.integer(1, 5)) : pair_of(draw.integer(1, 5), draw.integer(1, 4));
  };
  meanings["*.stride"] = meanings["*.dilation"] = [](Draw& draw) -> std::optional<Value> {
    return draw.chance(0.5) ? Value(draw.integer(1, 3)) : pair_of(draw.integer(1, 3), draw.integer(1, 2));
  };
  meanings["*.out"] = [](Draw& draw) -> std::optional<Value> { return Value(draw.integer(1, 20)); };
  meanings["*.groups"] = [](Draw& draw) -> std::optional<Value> { return Value(draw.integer(1, 4)); };
  return meanings;
}

struct Output {
  std::string name;  // as in `from`
  Shape shape;
  bool is_indices = false;
};

// Adds layer after layer, each accepted by its type for the available shapes.
class LayerDrawing {
 public:
  LayerDrawing(Draw& draw, const Registry& registry, double share) : draw_(draw), share_(share) {
    for (const auto& [name, type] : registry.layers()) types_.push_back(&type);
  }
  void begin(const NetworkSize& size) { outputs_.push_back({"@input", Shape{size.channels, size.height, size.width}}); }

  // Tries layers until one fits. `keeps_size`: of maps that keep their height and width.
  void add_any(const Registry& registry, bool keeps_size) {
    for (int i = 0; i < kTries; ++i) {
      if (i % 4 == 0) type_ = pick(draw_, types_);  // several tables and inputs for each
      const LayerType& type = *type_;
      const std::vector<Output> inputs = inputs_for(type);
      const Value table = drawn_table(type.params, type.defaults, type.name, meanings_, share_, draw_);
      const std::optional<LayerPlan> plan = planned(type, table, inputs);
      if (!plan || (keeps_size && !same_size(plan->output, outputs_[0].shape))) continue;
      append(type, table, inputs, *plan);
      return join(type, registry, *plan);
    }
  }
  void add(const Registry& registry, const std::string& op, const Value& table) {
    const LayerType& type = *registry.layers().find(op);
    const std::vector<Output> inputs{last_values()};
    if (const std::optional<LayerPlan> plan = planned(type, table, inputs)) append(type, table, inputs, *plan);
  }
  const Shape& shape() { return last_values().shape; }

  Array layers;
  std::vector<std::string> names;

 private:
  static bool same_size(const Shape& a, const Shape& b) { return a.rank() == 3 && a[1] == b[1] && a[2] == b[2]; }
  const Output& last_values() const {
    return *std::find_if(outputs_.rbegin(), outputs_.rend(), [](const Output& output) { return !output.is_indices; });
  }
  std::vector<Output> inputs_for(const LayerType& type) {
    std::vector<Output> inputs{last_values()};
    const std::int64_t most = std::min(type.most_inputs, 3);
    for (std::int64_t left = draw_.integer(type.least_inputs, std::max<std::int64_t>(most, type.least_inputs)); left > 1; --left)
      inputs.push_back(pick(draw_, outputs_));
    return inputs;
  }
  static std::optional<LayerPlan> planned(const LayerType& type, const Value& table, const std::vector<Output>& inputs) {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool takes_indices = i < type.takes.size() && type.takes[i] == Carries::indices;
      if (takes_indices != inputs[i].is_indices) return std::nullopt;
      shapes.push_back(inputs[i].shape);
    }
    Diagnostics errors;
    try {
      LayerPlan plan = type.plan(table, shapes, errors);
      if (!errors.empty() || plan.output.elements() > kMaxValues) return std::nullopt;
      return plan;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  void append(const LayerType& type, const Value& table, const std::vector<Output>& inputs, const LayerPlan& plan) {
    const std::string name = fmt::format("l{}", layers.size());
    Value entry;
    entry.set("name", Value(name));
    entry.set("op", Value(type.name));
    Array from;
    for (const Output& input : inputs) from.emplace_back(input.name);
    if (from.size() > 1 || &inputs[0] != &outputs_.back()) entry.set("from", Value(std::move(from)));
    for (const Member& member : table.table()) entry.set(member.key, member.value);
    layers.push_back(std::move(entry));
    names.push_back(name);
    for (std::size_t port = plan.more_outputs.size(); port > 0; --port) {
      const LayerOutput& said = type.outputs[port];
      outputs_.push_back({name + ":" + said.name, plan.more_outputs[port - 1], said.carries == Carries::indices});
    }
    outputs_.push_back({name, plan.output, false});
  }

  // Every output with values must be used.
  void join(const LayerType& type, const Registry& registry, const LayerPlan& plan) {
    std::vector<Output> outputs;
    for (std::size_t port = 0; port <= plan.more_outputs.size(); ++port) {
      if (type.outputs[port].carries == Carries::values) outputs.push_back(outputs_[outputs_.size() - 1 - port]);
    }
    const LayerType& concat = *registry.layers().find("concat");
    if (outputs.size() < 2) return;
    if (const std::optional<LayerPlan> joined = planned(concat, {}, outputs)) append(concat, {}, outputs, *joined);
  }

  Draw& draw_;
  double share_;
  const LayerType* type_ = nullptr;
  Meanings meanings_ = layer_meanings();
  std::vector<const LayerType*> types_;
  std::vector<Output> outputs_;
};

Value with(const std::string& key, Value value) {
  Value table;
  table.set(key, std::move(value));
  return table;
}

// From the drawn layers to the input of the loss.
void finish(LayerDrawing& drawing, Draw& draw, const Registry& registry, Task task, const NetworkSize& size) {
  if (task == Task::classes || task == Task::numbers) {
    if (drawing.shape().rank() == 3 && draw.chance(0.5)) drawing.add(registry, "global_average_pool", {});
    return drawing.add(registry, "linear", with("out", Value(size.outputs)));
  }
  if (drawing.shape().rank() != 3 || drawing.shape()[1] != size.height || drawing.shape()[2] != size.width)
    drawing.add(registry, "adaptive_average_pool", with("size", pair_of(size.height, size.width)));
  Value last = with("kernel", Value(1));
  last.set("out", Value(size.outputs * size.scale * size.scale));
  drawing.add(registry, "conv", last);
  if (size.scale > 1) drawing.add(registry, "pixel_shuffle", with("factor", Value(size.scale)));
}

}  // namespace

DrawnNetwork drawn_network(Draw& draw, const Registry& registry, Task task, const NetworkSize& size, double share) {
  LayerDrawing drawing(draw, registry, share);
  drawing.begin(size);
  const bool has_maps = task == Task::pixels || task == Task::images;
  for (std::int64_t count = draw.integer(0, kMaxLayers); count > 0; --count)
    drawing.add_any(registry, has_maps && draw.chance(0.7));
  finish(drawing, draw, registry, task, size);
  DrawnNetwork network;
  Value input;
  input.set("channels", Value(size.channels));
  input.set("height", Value(size.height));
  input.set("width", Value(size.width));
  Array mean, deviation;
  for (int c = 0; c < size.channels; ++c) {
    mean.emplace_back(draw.uniform(0.2, 0.6));
    deviation.emplace_back(draw.uniform(0.1, 0.5));
  }
  input.set("mean", Value(std::move(mean)));
  input.set("deviation", Value(std::move(deviation)));
  network.document.set("input", std::move(input));
  network.document.set("layers", Value(std::move(drawing.layers)));
  network.layers = std::move(drawing.names);
  return network;
}

}  // namespace millrace::generator
