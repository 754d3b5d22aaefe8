// Makes a PreparedRun from a checked file, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "base/out_of_memory.h"
#include "checkpoint/best.h"
#include "checkpoint/changes.h"
#include "config/document.h"
#include "config/graph_plan.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/joint_sink.h"
#include "plugin/loss_params.h"
#include "prepare/batch_choice.h"
#include "prepare/initial_weights.h"
#include "prepare/load_choice.h"
#include "prepare/prepared_run.h"
#include "prepare/same_run.h"
#include "prepare/stop_rules.h"
#include "prepare/without_effect.h"
#include "sampling/sample_order.h"
#include "stages/class_weights.h"
#include "stages/contents.h"
#include "stages/doubtful_classes.h"
#include "stages/doubtful_names.h"
#include "stages/label_values.h"
#include "stages/missing_files.h"
#include "stages/same_files.h"
#include "stages/seen_images.h"
#include "weight_files/fetched_weights.h"

namespace millrace {

namespace {

// Throws Error(usage) with the missing requirement of [run] on_nan: "rollback" needs checkpoints and one process, "skip" a stage
// that skips updates. `main`: with all its stages.
void check_on_nan(const Pipeline& pipeline, const GraphBuild& main, bool has_checkpoints, int processes) {
  const std::string& on_nan = pipeline.run.on_nan;
  if (on_nan == "stop" || !main.trains()) return;
  const std::string place = pipeline.place_of("run.on_nan");
  if (on_nan == "rollback") {
    if (!has_checkpoints) {
      fail(ErrorKind::usage,
           "{}: on_nan = \"rollback\" goes back to a checkpoint, and the run writes none: it needs a run.folder, and another "
           "checkpoint.every than \"never\"",
           place);
    }
    if (processes <= 1) return;
    fail(ErrorKind::usage,
         "{}: on_nan = \"rollback\" takes one process, and this run has {}: leave out --processes, or say \"stop\" and "
         "resume with --resume",
         place, processes);
  }
  const auto leaves_out = [](const auto& instances) { return instances.front()->leaves_out_updates(); };
  if (std::ranges::any_of(main.stages(), leaves_out)) return;
  fail(ErrorKind::usage,
       "{}: on_nan = \"skip\" takes a stage that bounds the norm of all gradients, and [{}] has none: put one between "
       "allreduce and optimizer, with global_norm = 1e30 if it is to bound nothing",
       place, main.plan().name);
}

void require_graph(const Pipeline& pipeline, const std::string& graph) {
  if (graph.empty() || pipeline.graph(graph)) return;
  std::vector<std::string> names;
  for (const GraphPlan& each : pipeline.graphs) names.push_back(each.name);
  const auto near = nearest_name(graph, names);
  fail(ErrorKind::usage, "{}: no graph '{}'; there {} {}{}", pipeline.title(), graph, names.size() == 1 ? "is" : "are",
       fmt::join(names, ", "), near ? fmt::format("; nearest is '{}'", *near) : "");
}

// Refuses features that do not support several processes, by name.
void check_processes(const Pipeline& pipeline, const RunOptions& options) {
  if (!pipeline.network)
    fail(ErrorKind::usage, "{}: several processes share the devices of a network, and there is no [network]", pipeline.title());
  if (options.hash_input) fail(ErrorKind::usage, "--hash pixels sees one process's part of a batch: run it with one process");
}

bool takes_predictions(const Port& port) { return port.payload == payload::kPredictions; }

// Other sinks would write only one process's results. `count`: sinks in the graphs before.
void number_joint_sinks(const GraphBuild& build, std::uint32_t& count) {
  const GraphPlan& plan = build.plan();
  for (std::size_t index = 0; index < plan.stages.size(); ++index) {
    const StagePlan& stage = plan.stages[index];
    if (std::ranges::none_of(stage.type->inputs, takes_predictions)) continue;
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

// Sinks name files after samples: two equal names would end the run in its first pass, perhaps after hours.
void require_file_names(const GraphBuild& build, std::uint64_t seed) {
  const Source* const source = build.data().source;
  for (std::size_t s = 0; source != nullptr && s < build.stages().size(); ++s) {
    const auto* const sink = dynamic_cast<const NamesFilesAfterSamples*>(build.stages()[s].front().get());
    if (sink == nullptr) continue;
    const SampleOrder order(*source, seed);
    SampleOrigin origin;
    std::uint64_t at = 0;
    try {
      sink->check_names([&](Predictions::Sample& sample) {
        if (at == order.listed()) return false;
        sample.key.index = order.listed(at++);
        if (!source->place(sample.key.index, origin)) return false;
        sample.url.assign(origin.url);
        sample.member.assign(origin.member);
        return true;
      });
    } catch (Error& error) {
      throw error.in(place_of(build.plan().stages[s], build.plan()));
    }
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
      fmt::format("the best weights stay those by {}, as when the run began; for {}: --set run.best={} "
                  "--allow-change run.best",
                  figure->text(), run.pipeline.run.best, run.pipeline.run.best));
  run.adapted.run.best = figure->text();
  *run.adapted.resolved.find("run")->find("best") = Value(figure->text(), now->at());
  run.adapted.best = std::move(figure);
}

void find_weights(PreparedRun& run) {
  if (run.resume_point) {
    run.weights.metadata = run.resume_point->checkpoint.state.metadata;
    Diagnostics ignored;  // errors are reported when the files are compared
    const auto begun = parse_toml(run.resume_point->checkpoint.pipeline, run.resume_point->path.string(), ignored);
    if (begun) run.audience.warn_once(weights_without_effect(run.pipeline, *begun));
    return;
  }
  const GraphPlan& main = run.stepping_graph();
  run.weights.from = choose_weights(run.pipeline, main, run.weights_options());
  run.weights.from.is_measured = !trains(main);
  if (!run.weights.from.file.empty() || !trains(main) || run.options.only_main) return;
  run.audience.warn_once(warning_of_frozen(run.pipeline));
}

void say_new_layer(PreparedRun& run) {
  if (run.weights.new_layer.empty()) return;
  run.audience.warn_once(fmt::format("the weights '{}' are of other classes: layer '{}' begins with new values",
                                     run.weights.from.file, run.weights.new_layer));
}

// A run cannot save non-finite weights, and training seldom repairs them.
void require_finite_weights(const PreparedRun& run) {
  if (!trains(run.stepping_graph())) return;
  for (std::size_t p = 0; p < run.weights.values.size(); ++p) {
    if (std::ranges::all_of(run.weights.values[p], [](float value) { return std::isfinite(value); })) continue;
    fail(ErrorKind::data, "the weights '{}' hold numbers that are not finite, in '{}': training cannot begin with them",
         run.weights.from.file, run.pipeline.network->parameters[p].name);
  }
}

// Reads the initial weights. A rank without a copy of the file receives one from another rank.
void take_weights(PreparedRun& run) {
  const std::string named = run.weights.from.file;
  std::unique_ptr<ScratchFolder> copy;
  if (run.options.group != nullptr) {
    run.options.doing("looking which ranks have the weights");
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
        [&](std::string what) { run.audience.warn_once(std::move(what)); });
  } catch (Error& error) {
    const bool says_file = run.options.weights.empty() && run.pipeline.made_by.empty() && !named.empty();
    throw says_file ? error.in(run.pipeline.place_of("network.weights")) : error;
  }
  if (run.options.group != nullptr) run.weights.checksum = checksum_of_file(run.weights.from.file);
  if (copy) run.weights.from.file = named;
  require_finite_weights(run);
  say_new_layer(run);
}

// Weights of equally many classes with other names fit by shape, but the last layer would keep the old meaning.
void renew_layer_of_other_classes(PreparedRun& run, const std::vector<std::string>& then, const std::vector<std::string>& now) {
  if (!run.weights.from.other_classes || !run.weights.new_layer.empty() || then.empty() || now.empty()) return;
  if (std::ranges::is_permutation(then, now)) return;  // another order is a mistake, see disagreements()
  begin_last_layer_new(run.weights, *run.pipeline.network);
  say_new_layer(run);
}

// Compares the weights' validation with this file's. Training on other images may be intended, but metrics and predictions would
// be silently wrong.
std::optional<InferenceRecipe> compared_recipe(PreparedRun& run) {
  const Pipeline& pipeline = run.pipeline;
  const WeightsSource& from = run.weights.from;
  std::optional<InferenceRecipe> recipe = inference_recipe_of(pipeline, run.builds);
  if (recipe) recipe->unrepeatable = mistake_in_recipe(*recipe, run.registry);
  const bool compares = pipeline.network_params.preprocessing == "compare" && !from.file.empty();
  if (!recipe || !compares || run.resume_point || run.options.only_main) return recipe;
  const auto stored = recipe_from(run.weights.metadata, from.file);
  if (!stored) return recipe;
  renew_layer_of_other_classes(run, stored->classes, recipe->classes);
  const Diagnostics found = disagreements(*stored, *recipe, !from.fresh.empty(), run.registry);
  if (found.empty()) return recipe;
  const std::string text = fmt::format(
      "{}\nthe weights '{}' say how [{}] of the run that wrote them prepared images, and {} does otherwise: change it, or say "
      "that it is meant, preprocessing = \"mine\" in [network] (--set network.preprocessing=mine)",
      found.text(), from.file, stored->graph, pipeline.title());
  if (!run.main().trains()) fail(ErrorKind::usage, "{}", text);
  run.audience.warn_once(text);
  return recipe;
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
  context.is_beside_training = !run.builds.empty() && run.builds.front()->trains();
  if (run.weights.from.fresh.empty()) {  // else they belong to another task
    context.classes = classes_from(run.weights.metadata);
    context.colours = colours_from(run.weights.metadata);
  }
  return context;
}

// Warning about the image size that the network sees in this graph, without reading an image.
std::string warning_of_shown_size(const PreparedRun& run, const GraphBuild& build) {
  const GraphBuild& main = run.main();
  std::string size = warning_of_other_size(main, build);
  if (size.empty() && build.data().image != main.data().image) size = warning_of_window(build, run.pipeline.network->input);
  return size.empty() ? warning_of_small_middle(build) : size;
}

// Warns about probable mistakes in the data, or in the graph's use of them.
void warn_of_images(PreparedRun& run, const GraphBuild& build) {
  const GraphBuild& main = run.main();
  const Network* const network = run.pipeline.network.get();
  if (network == nullptr || !main.trains() || run.options.only_main) return;
  if (&build == &main) {
    for (std::string& text : warnings_of_classes(main, network)) run.audience.warn_once(std::move(text));
    std::string alike = warning_of_equal_images(main);
    run.audience.warn_once(alike.empty() ? warning_of_contradictions(main) : std::move(alike));
    run.audience.warn_once(warning_of_window(main, network->input));
    run.audience.warn_once(warning_of_single_places(main, *network));
  } else if (!only_predicts(build.plan())) {  // images that are only predicted may be anything
    run.audience.warn_once(warning_of_shared_samples(main, build));
    run.audience.warn_once(warning_of_random_validation(main, build));
    run.audience.warn_once(warning_of_shown_size(run, build));
  }
}

// Warns if sinks of two graphs write the same files. Within one graph that is an error, see plan_graph().
void warn_of_equal_outputs(PreparedRun& run) {
  std::map<std::tuple<const StageType*, std::string, std::string>, std::string> places;  // by type, key and value
  for (const auto& build : run.builds) {
    for (const StagePlan& stage : build->plan().stages) {
      if (std::ranges::none_of(stage.type->inputs, takes_predictions)) continue;
      for (const char* key : {"file", "folder"}) {
        const std::string place = place_in(stage, key), name = fmt::format("[{}.{}]", build->plan().name, stage.name);
        if (place.empty()) continue;
        const auto [first, is_new] = places.try_emplace({stage.type, key, place}, name);
        if (is_new) continue;
        run.audience.warn_once(
            fmt::format("{} writes into '{}', as {} does: each takes the other's away, so give one of them another '{}'", name,
                        place, first->second, key));
      }
    }
  }
}

// Warns about combinations that are possible but rarely intended.
void warn_of_graphs(PreparedRun& run) {
  if (!run.options.is_first()) return;
  warn_of_equal_outputs(run);
  for (const auto& build : run.builds) {
    const GraphPlan& plan = build->plan();
    if (build->data().source != nullptr) run.audience.warn_once(warning_of_other_classes(*build, run.main()));
    warn_of_images(run, *build);
    run.audience.warn_once(warning_of_mirrors(*build));
    if (plan.every.empty() || !loses_results(plan)) continue;
    run.audience.warn_once(
        fmt::format("{}: no stage of [{}] reports or writes what the network makes of its images; put 'metrics' into its flow",
                    to_string(plan.at), plan.name));
  }
}

// Warnings from a few decoded images. The memory plan comes first, since one image may exceed the memory.
void warn_of_decoded_images(PreparedRun& run) {
  const std::size_t there = run.host_memory();
  if (!run.options.is_first() || (run.options.only_check && there > 0 && total_bytes(run.memory()) > there)) return;
  if (!run.options.only_check) require_memory_of(run);
  const GraphBuild& main = run.main();
  const auto seed = static_cast<std::uint64_t>(run.pipeline.run.seed);
  for (const auto& build : run.builds) {
    const bool is_compared = run.pipeline.network && main.trains() && !run.options.only_main && build.get() != &main;
    if (is_compared && !only_predicts(build->plan()) && warning_of_shown_size(run, *build).empty())
      run.audience.warn_once(warning_of_seen_part(*build, run.pipeline.network->input, seed));
    run.audience.warn_once(warning_of_label_values(*build, seed));
  }
}

// Paths in a file are relative to the working folder. If the files exist next to the pipeline, or above it (as for the pipeline
// in a run's folder), the program was probably started elsewhere.
Error with_place_beside(const Error& error, const GraphPlan& plan, const std::string& file) {
  namespace fs = std::filesystem;
  if (error.kind() != ErrorKind::data || !fs::path(file).has_parent_path()) return error;
  std::error_code ignored;
  const fs::path beside = fs::path(file).parent_path();
  for (const StagePlan& stage : plan.stages) {
    if (stage.type->role != StageType::Role::source) continue;
    for (const Member& member : stage.table.table()) {
      if (member.value.kind() != Value::Kind::text || member.value.text().empty()) continue;
      const fs::path path = member.value.text();
      if (path.is_absolute() || fs::exists(path, ignored)) continue;
      fs::path folder = beside;
      for (fs::path each = fs::weakly_canonical(beside, ignored); each.has_relative_path() && !fs::exists(folder / path, ignored);
           each = each.parent_path()) {
        folder = each;
      }
      if (!fs::exists(folder / path, ignored)) continue;
      return {error.kind(),
              fmt::format("{}. It lies in '{}': paths are relative to the folder that a command runs in, so run it there",
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
      throw with_place_beside(error, plan, run.pipeline.file);
    }
    GraphBuild& build = *run.builds.back();
    require_steps(build);
    require_files(build);
    require_learnt_classes(build, run.main(), run.pipeline.network.get());
    build.require_targets(run.pipeline.bases.files.empty() ? "" : run.pipeline.place_of("network.use"));
    require_same_classes(build, run.main());
    if (!options.only_main) require_meant_classes(build, run.pipeline.network.get());
  }
  warn_of_graphs(run);
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
  const std::vector<std::string>& names = main.data().classes;
  for (std::size_t k = 0; k < std::min(names.size(), weights.median.size()); ++k) {
    if (weights.median[k] > 0) continue;
    run.audience.warn_once(fmt::format("{}: no pixel is of class '{}', so that its weight is 0 and nothing of it is learned",
                                       place_of_source(main), names[k]));
  }
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
  if (run.pipeline.network) check_batches(run.pipeline, run.replicas, run.builds);
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

void warn_of_no_effect(PreparedRun& run) {
  if (!run.options.graph.empty() || run.options.only_main || run.options.resume.replays) return;
  const RunLength length{
      .trains = run.main().trains(), .steps = run.steps.end, .steps_per_epoch = run.main().data().steps_per_epoch()};
  for (std::string& text : without_effect(run.pipeline, length)) run.audience.warn_once(std::move(text));
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
    require_file_names(*build, static_cast<std::uint64_t>(run.pipeline.run.seed));
    if (run.options.processes() > 1) number_joint_sinks(*build, sinks);
  }
}

// The checkpoint's hashes of a source's samples; null if there are none, or the source's listing changed.
const SavedState::Contents* contents_then(const PreparedRun& run, const GraphBuild& build) {
  if (!run.resume_point) return nullptr;
  const auto& data = run.resume_point->checkpoint.state.data;
  const auto known = data.find(name_of_source(build));
  if (known == data.end() || known->second.listing_hash != build.data().listing_hash) return nullptr;
  return known->second.contents.samples.empty() ? nullptr : &known->second.contents;
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
      options.doing(fmt::format("reading all samples of [{}], to compare what they hold", build->plan().name));
      now.whole = hash_all(*build, available_cores().size());
    }
    const std::string changed = then != nullptr && options.is_first() ? difference_of_contents(*build, *then, now) : "";
    if (changed.empty()) continue;
    run.audience.warn_once(fmt::format(
        "{}: the data have changed since the checkpoint '{}': {} than then; the run resumes with the data as they are now",
        place_of_source(*build), run.resume_point->path.string(), changed));
  }
}

void prepare_all(PreparedRun& run) {
  const Pipeline& pipeline = run.pipeline;
  if (run.options.group != nullptr) require_same_versions(pipeline, run.registry, *run.options.group);
  if (!run.options.resume.notice.empty()) run.audience.warn(run.options.resume.notice);
  for (const std::string& text : pipeline.warnings) run.audience.warn_once(text);
  run.resume_point = resume_point_of(run);
  keep_best(run);
  if (pipeline.network) find_weights(run);
  if (run.options.processes() > 1) check_processes(pipeline, run.options);
  if (pipeline.network) {
    if (!run.resume_point) take_weights(run);
    run.options.doing("opening devices");
    run.replicas = open_replicas(pipeline, run.registry, {run.options.devices, run.options.group},
                                 [&](std::string_view message) { run.audience.warn(std::string(message)); });
  }
  list_data(run);
  run.recipe = compared_recipe(run);
  run.network_text = network_text_of(run);
  look_into_data(run);
  if (run.options.group != nullptr) require_same_run(run, *run.options.group);
  if (pipeline.network) count_class_weights(run);
  std::uint32_t kept = 0;
  if (run.resume_point) {
    kept = keep_choices(run);  // then the file is compared with numbers in place of automatic values
    require_allowed(compare_with_checkpoint(*run.resume_point, run.record(), pipeline), run.options.resume.allow_change,
                    pipeline.title(), run.resume_point->path.string());
  }
  if (std::string text = warning_of_limit(pipeline.run.memory); !text.empty()) run.audience.warn(std::move(text));
  compile(run, kept);
  run.steps = steps_of(run);
  warn_of_no_effect(run);
  add_step_stages(run);
  warn_of_decoded_images(run);
  for (const auto& figure : {best_figure(pipeline), pipeline.stop.figure, pipeline.plateau.figure}) {
    if (figure) require_figure(*figure, run.builds);
  }
  if (run.options.only_main || run.options.resume.replays) return;
  check_on_nan(pipeline, run.main(), run.saves_checkpoints(), run.options.processes());
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
