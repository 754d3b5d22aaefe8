#include <algorithm>

#include "drawing.h"
#include "millrace/loss.h"
#include "millrace/optimizer.h"

namespace millrace::generator {

namespace {

using Maybe = std::optional<Value>;

LossTarget target_of(Task task) {
  return task == Task::classes ? LossTarget::labels : task == Task::pixels ? LossTarget::classes : LossTarget::values;
}

// Losses for numbers in a range, such as labels, do not suit images.
bool fits(const LossInfo& info, Task task) { return info.target == target_of(task) && !(info.numbers && task == Task::images); }

Value weights_of_classes(Draw& draw, int count) {
  Array weights;
  for (int i = 0; i < count; ++i) weights.emplace_back(draw.uniform(0.1, 3));
  return Value(std::move(weights));
}

Meanings optimizer_meanings(const Drawing& drawing) {
  std::vector<std::string> optimizers;
  for (const auto& [name, type] : drawing.registry.optimizers()) optimizers.push_back(name);
  Meanings meanings;
  meanings["optimizer.type"] =
      meanings["optimizer.groups.type"] = [optimizers](Draw& draw) -> Maybe { return Value(pick(draw, optimizers)); };
  meanings["optimizer.groups.match"] = [layers = drawing.layers](Draw& draw) -> Maybe {
    return draw.chance(0.5) ? list_of({"*.weight"}) : list_of({pick(draw, layers) + ".*", "*.bias"});
  };
  meanings["optimizer.learning_rate.initial"] = [](Draw& draw) -> Maybe { return Value(draw.uniform(1e-4, 0.02)); };
  meanings["optimizer.learning_rate.drops"] = [](Draw&) -> Maybe { return Value(Array{Value(0.4), Value(1)}); };
  return meanings;
}

void add_optimizer(Drawing& drawing, GraphTable& graph) {
  Draw& draw = drawing.draw;
  const Meanings meanings = optimizer_meanings(drawing);
  Value table = drawing.table("optimizer", meanings);
  const Value* named = table.find("type");
  const OptimizerType& optimizer = *drawing.registry.optimizers().find(named ? named->text() : "sgd");
  const Value keys =
      drawn_table(optimizer.params, optimizer.defaults, optimizer.name, meanings, std::max(drawing.share, 0.3), draw);
  for (const Member& member : keys.table()) {
    if (table.find(member.key) == nullptr) table.set(member.key, member.value);
  }
  if (optimizer.name == "muon") {  // only for matrices
    Value group;
    group.set("vectors", Value(true));
    group.set("type", Value("adamw"));
    table.set("groups", Value(Array{group}));
  }
  graph.add("optimizer", std::move(table));
}

bool takes_predictions(const StageType& type) {
  return std::any_of(type.inputs.begin(), type.inputs.end(), [](const Port& port) { return port.payload == "Predictions"; });
}

}  // namespace

Value drawn_loss(Drawing& drawing) {
  Draw& draw = drawing.draw;
  std::vector<const LossType*> losses;
  for (const auto& [name, type] : drawing.registry.losses()) {
    if (fits(*type.info, drawing.task)) losses.push_back(&type);
  }
  const LossType& loss = *pick(draw, losses);
  Meanings meanings;
  meanings["*.class_weights"] = [&](Draw& d) -> Maybe {
    if (drawing.task == Task::pixels && d.chance(0.2)) return Value("median-frequency");
    return weights_of_classes(d, drawing.network.outputs);
  };
  meanings["*.positive_weight"] = [&](Draw& d) -> Maybe {
    return weights_of_classes(d, d.chance(0.5) ? 1 : drawing.network.outputs);
  };
  Value table = drawn_table(loss.params, loss.defaults, loss.name, meanings, std::max(drawing.share, 0.3), draw);
  if (table.table().empty() && draw.chance(0.5)) return Value(loss.name);
  table.set("type", Value(loss.name));
  if (draw.chance(0.1)) table.set("reduction", Value(draw.chance(0.5) ? "sum" : "mean"));
  return table;
}

void add_training(Drawing& drawing, GraphTable& graph) {
  Draw& draw = drawing.draw;
  Meanings meanings;
  if (draw.chance(0.1)) graph.add("write_batches", drawing.table("write_batches"));
  if (drawing.task == Task::classes && draw.chance(0.2)) graph.add("mix_images", drawing.table("mix_images", meanings));
  meanings["forward_backward.loss"] =
      meanings["forward_backward.auxiliary.loss"] = [&](Draw&) -> Maybe { return drawn_loss(drawing); };
  meanings["forward_backward.auxiliary.output"] = [](Draw&) -> Maybe { return std::nullopt; };
  Value table = drawing.table("forward_backward", meanings);
  if (table.find("loss") == nullptr) table.set("loss", drawn_loss(drawing));
  graph.add("forward_backward", std::move(table));
  meanings["allreduce.communicator"] = [](Draw& d) -> Maybe { return Value(d.chance(0.5) ? "auto" : "local"); };
  graph.add("allreduce", drawing.table("allreduce", meanings));
  if (draw.chance(0.1)) graph.add("write_gradients", drawing.table("write_gradients"));
  if (draw.chance(0.2)) graph.add("clip_gradients", drawing.table("clip_gradients"));
  add_optimizer(drawing, graph);
  if (draw.chance(0.9)) graph.add("metrics", {});
}

void add_sinks(Drawing& drawing, GraphTable& graph) {
  Draw& draw = drawing.draw;
  Meanings meanings;
  meanings["forward.loss"] = [&](Draw&) -> Maybe { return drawn_loss(drawing); };
  Value table = drawing.table("forward", meanings);
  if (table.find("loss") == nullptr) table.set("loss", drawn_loss(drawing));
  graph.add("forward", std::move(table));
  if (draw.chance(0.9)) graph.add("metrics", {});
  const auto layer = [layers = drawing.layers](Draw& d) -> Maybe { return Value(pick(d, layers)); };
  meanings["write_features.layer"] = meanings["write_grad_cam.features"] = layer;
  meanings["write_features.file"] = [](Draw& d) -> Maybe { return Value(d.chance(0.5) ? "f.npy" : "f.safetensors"); };
  meanings["write_classes.file"] = [](Draw& d) -> Maybe { return Value(d.chance(0.5) ? "p.csv" : "p.jsonl"); };
  meanings["*.folder"] = [](Draw& d) -> Maybe { return Value(d.chance(0.5) ? "drawn" : "drawn/deep"); };
  meanings["*.columns"] = [&](Draw&) -> Maybe {
    std::vector<std::string> names;
    for (int i = 0; i < drawing.network.outputs; ++i) names.push_back("c" + std::to_string(i));
    return list_of(names);
  };
  meanings["write_grad_cam.classes"] = [](Draw& d) -> Maybe { return Value(d.chance(0.5) ? "label" : "predicted"); };
  meanings["*.below"] = [&](Draw&) -> Maybe { return Value(drawing.data.folder.string()); };
  meanings["write_masks.labels"] = [](Draw&) -> Maybe { return Value(Array{Value(3), Value(7), Value(9)}); };
  meanings["write_masks.colours"] = [](Draw&) -> Maybe { return list_of({"#102030", "#aabbcc", "#ff0000"}); };
  std::vector<std::string> sinks = {"write_features"};  // those that usually fit; else any
  if (drawing.task == Task::classes) sinks.insert(sinks.end(), {"write_classes", "write_evaluation", "write_grad_cam"});
  if (drawing.task == Task::pixels) sinks.insert(sinks.end(), {"write_masks", "write_evaluation", "write_boundaries"});
  if (drawing.task == Task::images) sinks.insert(sinks.end(), {"write_images", "write_quality"});
  for (const auto& [name, type] : drawing.registry.stages()) {
    const bool is_new = std::find(sinks.begin(), sinks.end(), name) == sinks.end();
    if (is_new && takes_predictions(type) && draw.chance(0.15)) sinks.push_back(name);
  }
  for (std::int64_t count = draw.integer(0, 2); count > 0 && !sinks.empty(); --count) {
    const std::string sink = pick(draw, sinks);
    std::erase(sinks, sink);  // two of a type would write the same files
    graph.add(sink, drawing.table(sink, meanings));
  }
}

}  // namespace millrace::generator
