// The results of graphs: losses that cannot learn, results that no stage takes, sinks that overwrite each other's files.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "config/graph_plan.h"
#include "millrace/backend/network.h"
#include "millrace/loss.h"
#include "run/doctor/doctor.h"
#include "sampling/sample_order.h"

namespace millrace {
namespace {

// A network that ends in probabilities, where the loss applies its own softmax or sigmoid again.
std::string twice_applied(const Network& network, LayerPort output, const LossInfo& loss, const Registry& registry) {
  if (loss.applies.empty() || output.layer < 0) return {};
  const Layer& last = network.layers[static_cast<std::size_t>(output.layer)];
  const auto applies = [&](const auto& each) { return each.second.info->applies == last.op; };
  if (std::ranges::none_of(registry.losses(), applies)) return {};
  return fmt::format(
      "{}: layer '{}' is a {}, and loss '{}' applies a {} to the output itself, so the network learns little: remove the layer; "
      "predictions are probabilities without it",
      to_string(last.at), last.name, last.op, loss.name, loss.applies);
}

// Whether the first sample has no label, which a source may learn only by reading it. Bad samples are reported later.
bool lacks_label(const GraphData& data) {
  if (data.source == nullptr || data.is_labelled) return false;
  const bool has_others = data.source->numbers() > 0 || data.target.kind != TargetSpec::Kind::none;
  Sample sample;
  return !has_others && data.read_sample(SampleOrder(*data.source, 0).listed(0), sample).empty() && sample.label < 0;
}

// Sinks of two graphs that write the same files. Within one graph that is an error, see plan_graph().
void look_at_equal_outputs(const PreparedRun& run, const Doubt& doubt) {
  std::map<std::tuple<const StageType*, std::string, std::string>, std::string> places;  // by type, key and value
  for (const auto& build : run.builds) {
    for (const StagePlan& stage : build->plan().stages) {
      if (std::ranges::find(stage.type->inputs, payload::kPredictions, &Port::payload) == stage.type->inputs.end()) continue;
      for (const char* key : {"file", "folder"}) {
        const std::string place = place_in(stage, key), name = fmt::format("[{}.{}]", build->plan().name, stage.name);
        if (place.empty()) continue;
        const auto [first, is_new] = places.try_emplace({stage.type, key, place}, name);
        if (is_new) continue;
        doubt(fmt::format(
            "{} writes into '{}', as {} does: each would overwrite the other's files, so give one of them another '{}'", name,
            place, first->second, key));
      }
    }
  }
}

// Whether the graph computes results or predictions that no stage takes, and does not train.
bool loses_results(const GraphPlan& plan) {
  const auto is_result = [](const Port& port) {
    return port.payload == payload::kStepResult || port.payload == payload::kPredictions;
  };
  const auto makes = [&](const StagePlan& stage) { return std::ranges::any_of(stage.type->outputs, is_result); };
  return std::ranges::any_of(plan.stages, makes) && !trains(plan) && !has_reports(plan) && !has_predictions(plan);
}

}  // namespace

void check_losses(const PreparedRun& run, const Doubt& doubt) {
  const Network* const network = run.pipeline.network.get();
  for (const auto& build : run.builds) {
    CompileRequest request;
    if (network != nullptr) build->add_requests(request);
    for (const LossAt& each : request.losses) {
      const LossInfo& loss = each.loss->info();
      if (build->trains()) doubt(twice_applied(*network, each.output.value_or(network->result()), loss, run.registry));
      if (loss.target != LossTarget::labels || !lacks_label(build->data())) continue;
      doubt(fmt::format("{}: the first image has no label, but loss '{}' takes one of each", place_of_source(*build), loss.name));
    }
  }
}

void check_results(const PreparedRun& run, const Doubt& doubt) {
  look_at_equal_outputs(run, doubt);
  for (const auto& build : run.builds) {
    const GraphPlan& plan = build->plan();
    if (plan.every.empty() || !loses_results(plan)) continue;
    doubt(fmt::format("{}: no stage of [{}] reports or writes the network's results; put 'metrics' into its flow",
                      to_string(plan.at), plan.name));
  }
}

}  // namespace millrace
