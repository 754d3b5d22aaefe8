// A session's weights: what they were validated with, and what becomes of them at the end.
#include <fmt/format.h>

#include <utility>

#include "millrace/error.h"
#include "run/median_weights.h"
#include "run/session.h"
#include "run/weights.h"

namespace millrace {

// What the weights were validated with, beside what this file does with them. Training on other images may well be meant;
// figures and predictions would be wrong without a word.
void Session::compare_usage() {
  usage_ = usage_of(pipeline_, builds_);
  if (usage_) usage_->unrepeatable = mistake_in_recipe(*usage_, registry_);
  const bool compares = pipeline_.network_params.preprocessing == "compare" && !initial_.from.file.empty();
  if (!usage_ || !compares || resumed_ || options_.only_main) return;
  const auto stored = usage_from(initial_.metadata, initial_.from.file);
  if (!stored) return;
  const Diagnostics found = disagreements(*stored, *usage_, !initial_.from.fresh.empty());
  if (found.empty()) return;
  const std::string text = fmt::format(
      "{}\nthe weights '{}' say how [{}] of the run that wrote them prepared images, and {} does otherwise: change it, or say "
      "that it is meant, preprocessing = \"mine\" in [network] (--set network.preprocessing=mine)",
      found.text(), initial_.from.file, stored->graph, pipeline_.title());
  if (!builds_.front()->trains()) fail(ErrorKind::usage, "{}", text);
  if (is_first()) observers_.warn(text);
}

// With what the file left to the run.
Usage Session::usage_as_run() const {
  Usage usage = *usage_;
  usage.precision = to_string(precision_);
  usage.measure = with_median_weights(std::move(usage.measure), median_weights_);
  for (const auto& build : builds_) {
    if (build->plan().name == usage.graph) usage.batch = build->batch().size;
  }
  return usage;
}

std::map<std::string, std::string> Session::weights_metadata() const {
  std::map<std::string, std::string> metadata = plans_of(replicas_, devices_.devices);
  metadata.merge(metadata_of(builds_.front()->classes()));
  if (usage_) metadata.merge(metadata_of(usage_as_run()));
  return metadata;
}

ReplicaView Session::replica_view() const {
  return {.network = *pipeline_.network,
          .replicas = replicas_,
          .devices = devices_.devices,
          .copies = copies_,
          .evaluated = evaluated_,
          .load = pipeline_.run.load,
          .first_replica = devices_.first_replica,
          .all_replicas = devices_.all_replicas,
          .group = options_.group};
}

WeightsOptions Session::weights_options() const {
  return {
      .file = options_.weights, .begins = options_.from.epoch == 0 && options_.from.step == 0, .is_profile = options_.only_main};
}

void Session::find_weights() {
  if (resumed_) {
    initial_.metadata = resumed_->checkpoint.state.metadata;
    return;
  }
  const GraphPlan& main = options_.graph.empty() ? pipeline_.graphs.front() : *pipeline_.graph(options_.graph);
  initial_.from = choose_weights(pipeline_, main, weights_options());
  if (!initial_.from.file.empty() || !trains(main) || options_.only_main || !is_first()) return;
  if (std::string text = warning_of_frozen(pipeline_); !text.empty()) observers_.warn(std::move(text));
}

void Session::start_replicas() {
  doing("allocating the network's memory and writing its weights");
  for (const auto& replica : replicas_) replica->start();
  if (replicas_.empty() || resumed_) return;
  write_initial_values(initial_, pipeline_, *builds_.front(), replicas_, weights_options());
}

void Session::make_writers(const std::filesystem::path& run) {
  if (!pipeline_.network) return;
  const std::filesystem::path rescue = options_.rescue.empty() || run.empty()
                                           ? std::filesystem::path()
                                           : std::filesystem::path(options_.rescue) / places_.name_of(run);
  weights_ =
      std::make_unique<WeightsWriter>(replica_view(),
                                      WeightsWriter::Setting{.folder = run,
                                                             .rescue = rescue,
                                                             .writes = !pipeline_.run.folder.empty() && !options_.only_main,
                                                             .metadata = [this] { return weights_metadata(); },
                                                             .advise = [this](const Error& error) { return with_advice(error); }},
                                      observers_, requests_);
  if (!has_checkpoints()) return;
  checkpointer_ = std::make_unique<Checkpointer>(
      Checkpointer::Run{.pipeline = pipeline_,
                        .places = places_,
                        .stages = saved_stages(),
                        .steps_per_epoch = builds_.front()->steps_per_epoch(),
                        .metadata = initial_.from.fresh.empty() ? metadata_of(classes_from(initial_.metadata))
                                                                : std::map<std::string, std::string>(),
                        .record = record()},
      replica_view(), *weights_, observers_);
  if (is_first()) checkpointer_->open(run, resumed_ ? &*resumed_ : nullptr, rescue.empty() ? rescue : rescue / "checkpoints");
}

// The weights and the last checkpoint, each where it can be. The run fails when its own folder does not take one of them.
void Session::save_results(RunResult& result) {
  if (!weights_) return;
  result.weights_file = weights_->save_last();
  std::string lost;
  try {
    if (checkpointer_) checkpointer_->finish();
  } catch (const Error& error) {
    lost = error.what();
    if (!result.weights_file.empty()) lost += fmt::format("; the weights are in '{}'", result.weights_file);
  }
  weights_->finish_best();
  if (!weights_->lost().empty()) lost = weights_->lost() + (lost.empty() ? "" : "; ") + lost;
  if (!lost.empty()) fail(ErrorKind::run, "{}", lost);
  const bool has_checkpoint = checkpointer_ && checkpointer_->writes() && result.step > 0;
  if (has_checkpoint) result.go_on = command_with(options_.command, "--resume", log_->folder());
}

}  // namespace millrace
