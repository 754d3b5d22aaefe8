// Settings that contradict each other, ask for what no graph reports, or have no effect.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "checkpoint/best.h"
#include "config/difference.h"
#include "config/named_weights.h"
#include "millrace/error.h"
#include "prepare/batch_choice.h"
#include "report/class_figures.h"
#include "run/doctor/doctor.h"
#include "toml/document.h"
#include "util/secrets.h"

namespace millrace {
namespace {

// A metric of a class without a sample would never come.
void require_samples(const FigurePlan& figure, const GraphBuild& build, std::size_t c) {
  const std::vector<std::uint64_t>& counts = build.data().class_counts;
  if (c >= counts.size() || counts[c] > 0) return;
  fail(ErrorKind::usage, "{}: [{}] has no image of class '{}', so '{}' would never be measured", to_string(figure.at),
       figure.graph, build.data().classes[c], figure.name);
}

// Throws if the graph is made and does not report the metric.
void require_metric(const FigurePlan& figure, const Builds& builds) {
  for (const auto& build : builds) {
    if (build->plan().name != figure.graph) continue;
    std::vector<std::string> names = build->figures();
    if (std::find(names.begin(), names.end(), figure.name) != names.end()) return;
    const std::vector<std::string> classes = build->counted_classes();
    if (const auto c = class_of_figure(figure.name, classes)) return require_samples(figure, *build, *c);
    if (names.empty()) {
      fail(ErrorKind::usage, "{}: [{}] reports no figures; put 'metrics' into its flow", to_string(figure.at), figure.graph);
    }
    const std::string reported = fmt::format(
        "it reports {}{}", fmt::join(names, ", "),
        classes.empty() ? "" : fmt::format(", and recall, precision, f1 and iou of a class, as 'recall.{}'", classes[0]));
    std::ranges::move(names_of_class_figures(classes), std::back_inserter(names));
    const auto nearest = nearest_name(figure.name, names);
    fail(ErrorKind::usage, "{}: [{}] has no figure '{}'; {}{}", to_string(figure.at), figure.graph, figure.name,
         nearest ? fmt::format("nearest is '{}'; ", *nearest) : "", reported);
  }
}

// Passes of a graph after which the run can still change.
std::uint64_t passes_before_the_end(const GraphPlan& graph, std::uint64_t steps, std::uint64_t an_epoch) {
  const std::uint64_t done = steps > 0 ? steps - 1 : 0;
  return graph.every.empty() ? done / an_epoch : graph.when.times(done, an_epoch);
}

}  // namespace

// Refuses features that do not support several processes, by name.
void check_processes(const PreparedRun& run, const Doubt&) {
  if (run.options.processes() <= 1) return;
  if (!run.pipeline.network)
    fail(ErrorKind::usage, "{}: several processes share the devices of a network, but the file has no [network]",
         run.pipeline.title());
  if (run.options.hash_input) fail(ErrorKind::usage, "--hash pixels sees one process's part of a batch: run it with one process");
}

void look_at_ignored_weights(const Pipeline& pipeline, const Value& begun, const Doubt& doubt) {
  const Value *const now = pipeline.resolved.find("network"), *const then = begun.find("network");
  if (now == nullptr || then == nullptr) return;
  const std::string were = named_weights(begun), are = named_weights(pipeline.resolved);
  const auto name_of = [](const std::string& file) { return std::filesystem::path(file).filename(); };
  for (const char* key : kKeysOfWeights) {
    const Value* const written = now->find(key);
    if (written == nullptr || std::string_view(key) == "sha256") continue;
    const Value* const before = then->find(key);
    const bool is_moved = std::string_view(key) == "weights" && name_of(are) == name_of(were);  // only the folder changed
    if (is_moved || (before != nullptr && document_differences(key, *before, *written).empty())) continue;
    const std::string place = fmt::format("network.{}", key);
    return doubt(fmt::format("{}: {} has no effect: the run resumes with the weights of its checkpoint, after it began with {}",
                             pipeline.place_of(place), place,
                             were.empty() ? "new values" : fmt::format("'{}'", without_secrets(were))));
  }
}

void check_ignored_weights(const PreparedRun& run, const Doubt& doubt) {
  if (!run.pipeline.network || !run.resume_point) return;
  Diagnostics ignored;  // errors are reported when the files are compared
  const auto begun = parse_toml(run.resume_point->checkpoint.pipeline, run.resume_point->path.string(), ignored);
  if (begun) look_at_ignored_weights(run.pipeline, *begun, doubt);
}

// A random and frozen parameter, if all parameters are initialised.
void check_frozen_layers(const PreparedRun& run, const Doubt& doubt) {
  const Pipeline& pipeline = run.pipeline;
  const bool begins = pipeline.network && !run.resume_point && trains(run.stepping_graph()) && !run.options.only_main;
  if (!begins || !run.weights.from.file.empty()) return;
  const auto stays_random = [&](const Parameter& p) {
    return begins_random(p) && covers_any(pipeline.network_params.freeze, p.name);
  };
  const auto random = std::ranges::find_if(pipeline.network->parameters, stays_random);
  if (random == pipeline.network->parameters.end()) return;
  doubt(
      fmt::format("{}: freeze: '{}' begins with random values and is never trained, since no weights are given: set weights = "
                  "\"FILE\" in [network], or pass --weights FILE",
                  pipeline.place_of("network.freeze"), random->name));
}

// The metrics that [stop], [plateau] and run.best name.
void check_metrics(const PreparedRun& run, const Doubt&) {
  for (const auto& figure : {best_figure(run.pipeline), run.pipeline.stop.figure, run.pipeline.plateau.figure}) {
    if (figure) require_metric(*figure, run.builds);
  }
}

// The requirements of [run] on_nan: "rollback" needs checkpoints and one process, "skip" a stage that skips updates.
void check_on_nan(const PreparedRun& run, const Doubt&) {
  const std::string& on_nan = run.pipeline.run.on_nan;
  const GraphBuild& main = run.main();
  if (on_nan == "stop" || !main.trains() || run.options.only_main || run.options.resume.replays) return;
  const std::string place = run.pipeline.place_of("run.on_nan");
  if (on_nan == "rollback") {
    if (!run.saves_checkpoints()) {
      fail(ErrorKind::usage,
           "{}: on_nan = \"rollback\" returns to a checkpoint, but the run writes none: set run.folder, and checkpoint.every to "
           "anything but \"never\"",
           place);
    }
    if (run.options.processes() <= 1) return;
    fail(ErrorKind::usage,
         "{}: on_nan = \"rollback\" works with one process, but this run has {}: leave out --processes, or set \"stop\" and "
         "resume with --resume",
         place, run.options.processes());
  }
  const auto skips = [](const auto& instances) { return instances.front()->skips_nonfinite_steps(); };
  if (std::ranges::any_of(main.stages(), skips)) return;
  fail(ErrorKind::usage,
       "{}: on_nan = \"skip\" needs a stage that bounds the norm of all gradients, but [{}] has none: put one between allreduce "
       "and optimizer; global_norm = 1e30 bounds nothing",
       place, main.plan().name);
}

void look_at_settings(const Pipeline& pipeline, const MainGraphSteps& main, std::uint64_t steps, const Doubt& doubt) {
  if (!main.trains) {
    const auto is_unused = [&](const std::string& key, const std::string& what) {
      doubt(fmt::format("{}: {} has no effect: [{}] does not train", pipeline.place_of(key), what, main.name));
    };
    for (const std::string table : {"stop", "plateau", "checkpoint"}) {
      if (pipeline.resolved.find(table) != nullptr) is_unused(table, "[" + table + "]");
    }
    if (pipeline.best) is_unused("run.best", "run.best");
    return;
  }
  if (steps == 0) {
    doubt(fmt::format("{}: run.epochs = {:g} trains nothing: the run has no step; take 1 or more",
                      pipeline.place_of("run.epochs"), pipeline.run.epochs));
  }
  if (pipeline.best && pipeline.run.folder.empty())
    doubt(fmt::format("{}: run.best has no effect: run.folder = \"\" writes nothing", pipeline.place_of("run.best")));
  const auto look_at = [&](const char* table, const std::optional<FigurePlan>& figure, std::uint64_t patience) {
    if (!figure) return;
    const std::uint64_t passes = passes_before_the_end(*pipeline.graph(figure->graph), steps, main.an_epoch);
    if (passes > patience) return;  // the first pass sets the value to improve on
    doubt(fmt::format(
        "{}: figure of [{}] has no effect: patience = {} takes {} passes of [{}] before the last step, but the run has {}",
        pipeline.place_of(fmt::format("{}.patience", table)), table, patience, patience + 1, figure->graph, passes));
  };
  look_at("stop", pipeline.stop.figure, pipeline.stop.patience);
  look_at("plateau", pipeline.plateau.figure, pipeline.plateau.patience);
}

void check_unused_settings(const PreparedRun& run, const Doubt& doubt) {
  if (!run.options.graph.empty() || run.options.only_main || run.options.resume.replays) return;
  look_at_settings(run.pipeline, {run.main().plan().name, run.main().trains(), run.main().data().steps_per_epoch()},
                   run.steps.end, doubt);
}

// A limit that exceeds the machine's memory and so has no effect.
void check_memory_limit(const PreparedRun& run, const Doubt& doubt) { doubt(warning_of_limit(run.pipeline.run.memory)); }

// A plan that exceeds the limit. An automatic batch size fits.
void check_memory(const PreparedRun& run, const Doubt& doubt) {
  if (!BatchChoice::is_open(run.builds))
    doubt(warning_of_memory(run.memory(), run.host_memory(), !run.pipeline.run.memory.empty()));
}

}  // namespace millrace
