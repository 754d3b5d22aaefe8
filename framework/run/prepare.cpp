// Makes a PreparedRun from a checked file, step by step.
#include "run/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/changes.h"
#include "millrace/error.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/joint_sink.h"
#include "plugin/loss_params.h"
#include "prepare/batch_choice.h"
#include "prepare/class_weights.h"
#include "prepare/contents.h"
#include "prepare/load_choice.h"
#include "prepare/same_run.h"
#include "run/doctor/doctor.h"
#include "toml/document.h"
#include "util/out_of_memory.h"
#include "weights/fetched_weights.h"

namespace millrace {

namespace {

void require_graph(const Pipeline& pipeline, const std::string& graph) {
  if (graph.empty() || pipeline.graph(graph)) return;
  std::vector<std::string> names;
  for (const GraphPlan& each : pipeline.graphs) names.push_back(each.name);
  const auto near = nearest_name(graph, names);
  fail(ErrorKind::usage, "{}: no graph '{}'; there {} {}{}", pipeline.title(), graph, names.size() == 1 ? "is" : "are",
       fmt::join(names, ", "), near ? fmt::format("; nearest is '{}'", *near) : "");
}

// Other sinks would write only one process's results. `count`: sinks in the graphs before.
void number_joint_sinks(const GraphBuild& build, std::uint32_t& count) {
  const GraphPlan& plan = build.plan();
  for (std::size_t index = 0; index < plan.stages.size(); ++index) {
    const StagePlan& stage = plan.stages[index];
    if (std::ranges::find(stage.type->inputs, payload::kPredictions, &Port::payload) == stage.type->inputs.end()) continue;
    if (auto* const sink = dynamic_cast<JointSink*>(build.stages()[index].front().get())) {
      sink->set_number(count++);
      continue;
    }
    fail(ErrorKind::usage,
         "{}: it writes the predictions of one process: give [{}] every = \"never\", and run --graph {} afterwards with one "
         "process",
         place_of(stage, plan), plan.name, plan.name);
  }
}

// Empty if a new run begins. With several processes rank 0 chooses.
std::optional<ResumePoint> resume_point_of(PreparedRun& run) {
  const RunOptions& options = run.options;
  const bool begins_elsewhere = !options.weights.empty() || options.from.epoch > 0 || options.from.step > 0;
  const auto request = resume_request(run.pipeline, {.run = options.resume.run,
                                                     .saves_checkpoints = run.saves_checkpoints(),
                                                     .replays = options.resume.replays,
                                                     .only_checks = options.only_check,
                                                     .begins_elsewhere = begins_elsewhere,
                                                     .allows_changes = !options.resume.allow_change.empty()});
  if (run.saves_checkpoints()) run.places.require_checkpoint_folder();
  std::optional<ResumePoint> point;
  if (!request) return point;
  options.doing("reading the checkpoint");
  try {
    if (options.is_first()) {
      point = find_resume_point(*request, run.places, options.resume.rate_factor.has_value(),
                                [&](std::string text) { run.audience.warn(std::move(text)); });
    }
  } catch (...) {
    if (options.group != nullptr) share_resume_point(point, true, run.places, *options.group);
    throw;
  }
  if (options.group != nullptr) share_resume_point(point, false, run.places, *options.group);
  if (point && options.resume.rate_factor) point->checkpoint.state.rate_factor = *options.resume.rate_factor;
  if (point) run.options.from = {point->checkpoint.state.epoch, point->checkpoint.state.step_of_epoch};
  return point;
}

// The best so far was found with the metric in the base file when the run began; a later version may name another.
void keep_best(PreparedRun& run) {
  const Value* const table = run.pipeline.resolved.find("run");
  const Value* const now = table != nullptr ? table->find("best") : nullptr;
  if (!run.resume_point || now == nullptr || !run.pipeline.bases.has(now->at())) return;
  if (std::ranges::find(run.options.resume.allow_change, "run.best") != run.options.resume.allow_change.end()) return;
  Diagnostics ignored;  // errors are reported when the files are compared
  const auto begun = parse_toml(run.resume_point->checkpoint.pipeline, run.resume_point->path.string(), ignored);
  const Value* const then_table = begun ? begun->find("run") : nullptr;
  const Value* const then = then_table != nullptr ? then_table->find("best") : nullptr;
  if (then == nullptr || then->kind() != Value::Kind::text || then->text() == run.pipeline.run.best) return;
  auto figure = plan_figure("best", Value(then->text(), now->at()), run.pipeline.graphs, ignored);
  if (!figure) return;
  run.audience.warn_once(
      fmt::format("the best weights are still chosen by {}, as when the run began; to choose by {}: --set run.best={} "
                  "--allow-change run.best",
                  figure->text(), run.pipeline.run.best, run.pipeline.run.best));
  run.adapted.run.best = figure->text();
  *run.adapted.resolved.find("run")->find("best") = Value(figure->text(), now->at());
  run.adapted.best = std::move(figure);
}

void find_weights(PreparedRun& run) {
  if (run.resume_point) {
    run.weights.metadata = run.resume_point->checkpoint.state.metadata;
    return;
  }
  run.weights.from = choose_weights(run.pipeline, run.stepping_graph(), run.weights_options());
  run.weights.from.is_measured = !trains(run.stepping_graph());
}

// Reads the initial weights. A rank without a copy of the file receives one from another rank.
void take_weights(PreparedRun& run) {
  const std::string named = run.weights.from.file;
  std::unique_ptr<ScratchFolder> copy;
  if (run.options.group != nullptr) {
    run.options.doing("checking which ranks have the weights");
    copy = send_weights_where_missing(run.weights.from.file, *run.options.group);
    const bool is_file = run.options.weights.empty() && !named.empty() && !is_remote(named);
    std::error_code ignored;
    if (is_file && !std::filesystem::exists(run.weights.from.file, ignored)) {
      fail(ErrorKind::usage, "{}: {}, on no rank", run.pipeline.place_of("network.weights"), no_such_file(named));
    }
  }
  try {
    run.weights = read_weights(
        std::move(run.weights.from), run.weights_options(), *run.pipeline.network, run.registry,
        [&](std::string what) { run.options.doing(std::move(what)); },
        run.options.is_first() ? run.options.hooks.notice : nullptr);
  } catch (Error& error) {
    const bool names_file = run.options.weights.empty() && run.pipeline.made_by.empty() && !named.empty();
    throw names_file ? error.in(run.pipeline.place_of("network.weights")) : error;
  }
  if (run.options.group != nullptr) run.weights.checksum = checksum_of_file(run.weights.from.file);
  if (copy) run.weights.from.file = named;
}

// The preparation of images by this run, and by the run that wrote the initial weights. Weights of equally many classes with
// other names fit by shape, but the last layer would keep the old meaning.
void compare_recipes(PreparedRun& run) {
  const WeightsSource& from = run.weights.from;
  run.recipe = inference_recipe_of(run.pipeline, run.builds);
  if (!run.recipe) return;
  run.recipe->unrepeatable = mistake_in_recipe(*run.recipe, run.registry);
  const bool compares = run.pipeline.network_params.preprocessing == "compare" && !from.file.empty();
  if (!compares || run.resume_point || run.options.only_main) return;
  run.stored_recipe = recipe_from(run.weights.metadata, from.file);
  if (!run.stored_recipe || !from.other_classes || !run.weights.new_layer.empty()) return;
  const std::vector<std::string>&then = run.stored_recipe->classes, &now = run.recipe->classes;
  const bool are_others = !then.empty() && !now.empty() && !std::ranges::is_permutation(then, now);
  if (are_others) begin_last_layer_new(run.weights, *run.pipeline.network);  // another order is a mistake, see disagreements()
}

// The context common to all stages.
DataContext shared_context(const PreparedRun& run) {
  DataContext context;
  context.seed = static_cast<std::uint64_t>(run.pipeline.run.seed);
  context.network = run.pipeline.network.get();
  if (run.pipeline.network) context.window = run.pipeline.network->input;
  context.run = &run.audience.log();
  context.registry = &run.registry;
  context.group = run.options.group;
  context.is_during_training = !run.builds.empty() && run.builds.front()->trains();
  if (run.weights.from.fresh.empty()) {  // else they belong to another task
    context.classes = classes_from(run.weights.metadata);
    context.colours = colours_from(run.weights.metadata);
  }
  return context;
}

// Paths in a file are relative to the working folder. If the files exist next to the pipeline, or above it (as for the pipeline
// in a run's folder), the program was probably started elsewhere.
Error with_nearby_place(const Error& error, const GraphPlan& plan, const std::string& file) {
  namespace fs = std::filesystem;
  if (error.kind() != ErrorKind::data || !fs::path(file).has_parent_path()) return error;
  std::error_code ignored;
  const fs::path parent = fs::path(file).parent_path();
  for (const StagePlan& stage : plan.stages) {
    if (stage.type->role != StageType::Role::source) continue;
    for (const Member& member : stage.table.table()) {
      if (member.value.kind() != Value::Kind::text || member.value.text().empty()) continue;
      const fs::path path = member.value.text();
      if (path.is_absolute() || fs::exists(path, ignored)) continue;
      fs::path folder = parent;
      for (fs::path each = fs::weakly_canonical(parent, ignored); each.has_relative_path() && !fs::exists(folder / path, ignored);
           each = each.parent_path()) {
        folder = each;
      }
      if (!fs::exists(folder / path, ignored)) continue;
      return {error.kind(), fmt::format("{}. It is in '{}': paths are relative to the working folder, so run the command there",
                                        error.what(), folder.string())};
    }
  }
  return error;
}

void list_data(PreparedRun& run) {
  const RunOptions& options = run.options;
  run.audience.open_log(run.stepping_graph());
  for (const GraphPlan& plan : run.pipeline.graphs) {
    if (options.graph.empty() ? plan.when.never : plan.name != options.graph) continue;
    if (options.only_main && !run.builds.empty()) break;
    options.doing(fmt::format("listing the samples of [{}]", plan.name));
    try {
      run.builds.push_back(std::make_unique<GraphBuild>(plan, shared_context(run), run.replicas.all()));
    } catch (const Error& error) {
      throw with_nearby_place(error, plan, run.pipeline.file);
    }
    require_steps(*run.builds.back());
  }
}

void count_class_weights(PreparedRun& run) {
  const auto place_of = [&](std::string_view word) {
    std::string asking;
    for (const auto& build : run.builds) asking = asking.empty() ? place_of_class_weights(build->plan(), word) : asking;
    return asking;
  };
  const std::string balanced = place_of(kBalanced);
  const bool looks = run.resume_point || !run.options.only_check;  // reads all label images
  const std::string median = looks ? place_of(kMedianFrequency) : std::string();
  if (balanced.empty() && median.empty()) return;
  // Each thread decodes an image. The batches' memory is known, the replicas' not yet.
  if (!median.empty()) require_possible_memory(run.memory_with({}), host_memory_for("", run.replicas.devices().processes_here));
  const GraphPlan& plan = run.pipeline.graphs.front();
  std::unique_ptr<GraphBuild> alone;  // if another graph runs without it
  if (&run.main().plan() != &plan) alone = std::make_unique<GraphBuild>(plan, shared_context(run), run.replicas.all());
  const GraphBuild& main = alone ? *alone : run.main();
  const auto classes = static_cast<std::size_t>(run.pipeline.network->output()[0]);
  CountedWeights& weights = run.class_weights;
  weights.classes = main.data().classes;
  try {
    if (!balanced.empty()) weights.balanced = balanced_weights(main, classes);
    if (!median.empty()) {
      run.options.doing(fmt::format("counting the pixels of each class of [{}]", plan.name));
      weights.median = median_frequency_weights(main, {.classes = classes,
                                                       .seed = static_cast<std::uint64_t>(run.pipeline.run.seed),
                                                       .threads = static_cast<unsigned>(run.data_threads()),
                                                       .cache = cache_folder("class_weights")});
    }
  } catch (Error& error) {
    throw error.in(weights.balanced.empty() && !balanced.empty() ? balanced : median);
  }
  for (const auto& build : run.builds) build->set_class_weights(weights);
}

// The current network: a checkpoint may replace it by the one at the run's start.
std::string network_text_of(const PreparedRun& run) {
  const std::string& file = run.pipeline.network_params.use;
  if (file.empty()) return {};
  Diagnostics ignored;  // errors were reported before
  const auto document = read_document(file, {}, ignored);
  return document ? to_toml(*document) : std::string();
}

// Keeps the automatic choices of the checkpoint's run: the shares of replicas, and the batch size, which is returned; 0 if it is
// set in the file.
std::uint32_t keep_choices(PreparedRun& run) {
  Diagnostics errors;
  const auto then =
      parse_toml(run.resume_point->checkpoint.pipeline, (run.resume_point->path / "pipeline.toml").string(), errors);
  errors.throw_if_any();
  if (measures_load(run.pipeline)) run.replicas.set_load(kept_load(*then, run.replicas.all()));
  return take_batch_size(run.builds, *then);
}

void choose_batch(PreparedRun& run, std::uint32_t kept, const ReplicaSet::Compiling& compiling) {
  MemoryLimits limits;
  try {
    limits = memory_limits(run.pipeline.run.memory, run.replicas.devices().processes_here, run.replicas.devices().devices);
  } catch (Error& error) {
    throw error.in(BatchChoice::place(run.builds));
  }
  BatchChoice choice(run.builds, run.options.group, [&] {
    Replicas candidates;
    if (run.pipeline.network) candidates = run.replicas.compiled(compiling);
    std::string lack = lack_of_memory(run.memory_with(candidates), limits);
    if (lack.empty()) run.replicas.keep(std::move(candidates));
    return lack;
  });
  const auto replicas = static_cast<std::uint32_t>(std::max<std::size_t>(run.replicas.all(), 1));
  if (kept > 0) {
    choice.keep(kept);
  } else {
    choice.choose(replicas * run.replicas.request().micro_batches);
  }
  run.batch_choice = choice.text();
}

// Compiles the network, if any, for the batch size in the file or the largest that fits.
void compile(PreparedRun& run, std::uint32_t kept) {
  for (const auto& build : run.builds) limit_batch(*build, run.replicas.all(), run.replicas.load());
  if (run.pipeline.network) run.replicas.ask(run.pipeline.run, run.builds, run.options.time_layers);
  const ReplicaSet::Compiling compiling{run.pipeline, run.builds, run.weights.metadata,
                                        [&](std::string what) { run.options.doing(std::move(what)); }};
  if (measures_load(run.pipeline)) choose_load(run, compiling);
  if (BatchChoice::is_open(run.builds)) {
    choose_batch(run, kept, compiling);
  } else if (run.pipeline.network) {
    run.replicas.keep(run.replicas.compiled(compiling));
  }
}

// The step in the epoch for a resumed run with another batch size; empty if the size is equal. The same number of samples is
// done: a partly done batch is repeated. Larger batches may leave none to do.
std::optional<std::uint64_t> step_with_other_batches(PreparedRun& run) {
  if (!run.resume_point) return std::nullopt;
  const StartingPoint& from = run.options.from;
  const std::uint64_t was = run.resume_point->checkpoint.state.batch_size, is = run.main().data().batch.size;
  if (was == 0 || was == is) return std::nullopt;
  const std::uint64_t samples = from.step * was, again = samples % is, an_epoch = run.main().data().steps_per_epoch();
  if (samples / is >= an_epoch) return an_epoch;
  if (again > 0) {
    run.audience.warn_once(
        fmt::format("{}: batches hold {} samples now, and {} before: {} samples of epoch {} are trained on a second time",
                    run.pipeline.title(), is, was, again, from.epoch + 1));
  }
  return samples / is;
}

StepRange steps_of(PreparedRun& run) {
  const GraphBuild& main = run.main();
  return choose_steps(run.pipeline, {main.plan().name, main.trains(), main.data().steps_per_epoch()},
                      {.from = run.options.from,
                       .is_resumed = run.resume_point.has_value(),
                       .step_with_other_batches = step_with_other_batches(run),
                       .is_named = !run.options.graph.empty(),
                       .most = run.options.most_steps});
}

void add_step_stages(PreparedRun& run) {
  const OpenDevices& devices = run.replicas.devices();
  std::uint32_t sinks = 0;
  for (const auto& build : run.builds) {
    StepContext context;
    for (const auto& replica : run.replicas.here()) context.replicas.push_back(replica.get());
    for (const auto& device : devices.devices) context.devices.push_back(device.get());
    context.load = run.replicas.load();
    if (context.load.empty()) context.load.assign(run.replicas.all(), 1.0);
    context.first_replica = static_cast<int>(devices.first_replica);
    context.total_steps = run.steps.total;
    // even if only the first steps run, stages get the length of the whole run
    context.last_step = run.options.most_steps > 0 ? run.steps.total : run.steps.end;
    context.hash_input = run.options.hash_input;
    build->add_step_stages(std::move(context));
    if (run.options.processes() > 1) number_joint_sinks(*build, sinks);
  }
}

// A resumed run reads the same few samples as before, to detect changed data; ranks other than 0 read those of rank 0, see
// same_run.h.
void look_into_data(PreparedRun& run) {
  const RunOptions& options = run.options;
  const bool keeps_it = run.main().trains() && !options.only_main && (run.resume_point || !options.only_check);
  if (options.group == nullptr && !keeps_it && !options.compare_data) return;
  const auto salt = static_cast<std::uint64_t>(run.pipeline.run.seed);  // so that equal runs have equal checkpoints
  for (const auto& build : run.builds) {
    if (build->data().source == nullptr) continue;
    SavedState::Contents& now = run.contents[name_of_source(*build)];
    const SavedState::Contents* const then = contents_then(run, *build);
    if (options.is_first()) {
      options.doing(fmt::format("reading a few samples of [{}]", build->plan().name));
      now = look_into(*build, salt, then);
    }
    if (options.compare_data) {
      options.doing(fmt::format("reading all samples of [{}], to compare their contents", build->plan().name));
      now.whole = hash_all(*build, available_cores().size());
    }
  }
}

void prepare_all(PreparedRun& run) {
  const Pipeline& pipeline = run.pipeline;
  Group* const group = run.options.group;
  if (group != nullptr) require_same_versions(pipeline, run.registry, *group);
  if (!run.options.resume.notice.empty()) run.audience.warn(run.options.resume.notice);
  for (const std::string& text : pipeline.warnings) run.audience.warn_once(text);
  run.resume_point = resume_point_of(run);
  keep_best(run);
  if (pipeline.network) find_weights(run);
  examine(run, Known::weights);

  if (pipeline.network && !run.resume_point) take_weights(run);
  if (pipeline.network) {
    run.options.doing("opening devices");
    run.replicas = open_replicas(pipeline, run.registry, {run.options.devices, group},
                                 [&](std::string_view message) { run.audience.warn(std::string(message)); });
  }
  list_data(run);
  compare_recipes(run);
  examine(run, Known::data);

  run.network_text = network_text_of(run);
  look_into_data(run);
  if (group != nullptr) require_same_run(run, *group);
  if (pipeline.network) count_class_weights(run);
  std::uint32_t kept = 0;
  if (run.resume_point) {
    kept = keep_choices(run);  // then the file is compared with numbers in place of automatic values
    require_allowed(compare_with_checkpoint(*run.resume_point, run.record(), pipeline), run.options.resume.allow_change,
                    pipeline.title(), run.resume_point->path.string());
  }
  compile(run, kept);
  run.steps = steps_of(run);
  add_step_stages(run);
  examine(run, Known::plan);

  if (!run.options.only_check) require_memory_of(run);
  const std::size_t there = run.host_memory();
  if (there == 0 || total_bytes(run.memory()) <= there || !run.options.only_check) examine(run, Known::memory);
}

}  // namespace

std::unique_ptr<PreparedRun> prepare(const Pipeline& pipeline, const Registry& registry, RunOptions options) {
  require_graph(pipeline, options.graph);
  RunPlaces(pipeline, registry).require_name();
  auto run = std::make_unique<PreparedRun>(pipeline, registry, std::move(options));
  try {
    prepare_all(*run);
    return run;
  } catch (...) {
    const Error error = current_error();
    run->leave(&error);  // other processes report the cause
    if (!lacks_memory(error)) throw;
    const bool is_planned = !pipeline.network || !run->replicas.here().empty();
    const Activity* const activity = run->options.hooks.activity;
    throw with_memory(error, activity != nullptr ? activity->text() : "", is_planned ? run->memory() : std::vector<MemoryItem>(),
                      run->host_memory());
  }
}

}  // namespace millrace
