// pipeline-run: runs a pipeline file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/run_folder.h"
#include "command_line.h"
#include "common/arguments.h"
#include "common/last_words.h"
#include "common/started_ranks.h"
#include "config/network_plan.h"
#include "config/plan.h"
#include "find_rate.h"
#include "image_answers.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "network/published.h"
#include "overfit.h"
#include "predict.h"
#include "predict/int8.h"
#include "prediction_folder.h"
#include "prepare/devices.h"
#include "ranks/socket_group.h"
#include "run/check.h"
#include "run/doctor/doctor.h"
#include "run/explain.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "run_ranks.h"
#include "screen_watch.h"
#include "signal_watch.h"
#include "toml/document.h"
#include "trace_file.h"
#include "util/scratch_folder.h"
#include "watch_folder.h"
#include "weights/best_weights.h"
#include "weights/fetched_weights.h"
#include "weights/tensor_file.h"
#include "weights/weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// Observes one run after the other; read it when they are over.
class ImageCount final : public RunObserver {
 public:
  std::size_t passes() const { return passes_; }  // complete ones
  double used() const { return used_; }
  std::uint64_t bad() const { return bad_; }
  const std::string& first_bad() const { return first_bad_; }  // its name, and the reason

  void pass(const PassEvent& event) override {
    ++passes_;
    used_ += event.samples;
  }
  void bad_sample(const BadSampleEvent& event) override {
    if (bad_++ == 0) first_bad_ = "'" + event.place + "': " + event.cause;
  }

 private:
  std::size_t passes_ = 0;
  double used_ = 0;
  std::uint64_t bad_ = 0;
  std::string first_bad_;
};

// 0 if its checkpoints are elsewhere, or there are none.
std::uint64_t newest_step(const fs::path& run) {
  const std::string name = pointed_to(run / "checkpoints", "latest");
  return is_checkpoint_name(name) ? step_of_checkpoint(name) : 0;
}

// Uses a run's best weights, or else its last ones, if --weights names its folder, and logs which. Until a resumed run ends, its
// last weights are those from before: then the step of its newest checkpoint is logged. Throws Error(usage) for a folder without
// weights.
void choose_weights_of_run(CommandLine& line) {
  std::string& weights = line.options.weights;
  std::error_code ignored;
  if (weights.empty() || !fs::is_directory(weights, ignored)) return;
  const fs::path file = weights_of_run(weights);
  const std::optional<Best> best = best_in(file);
  const std::optional<std::uint64_t> last = last_step_in(file);
  const std::string step = best   ? fmt::format(", the best by {}, after step {}", best->figure, best->step)
                           : last ? fmt::format(", after step {}", *last)
                                  : "";
  if (!line.quiet) print_to_stderr("--weights: '{}'{}\n", file.string(), step);
  if (const std::uint64_t newest = newest_step(weights); !best && last && newest > *last) {
    print_to_stderr("warning: '{}' is from step {}, and the run has a checkpoint of step {}; --resume {} completes it\n",
                    file.string(), *last, newest, weights);
  }
  weights = (without_link(weights) / file.filename()).string();  // recorded by the run
}

// Its table, even if the file has disabled the observer.
Value& table_of(const char* name, const Registry& registry, Pipeline& pipeline) {
  std::vector<ObserverPlan>& all = pipeline.observers;
  const auto found = std::ranges::find(all, name, &ObserverPlan::name);
  if (found != all.end()) return found->table;
  const ObserverType* const type = registry.observers().find(name);
  if (type == nullptr) fail(ErrorKind::usage, "unknown observer '{}'{}", name, skipped_clause(registry, name));
  const auto place = std::ranges::lower_bound(all, std::string_view(name), {}, &ObserverPlan::name);
  return all.insert(place, {.name = name, .type = type, .table = Value()})->table;
}

// Changes the active observers. Pipeline::resolved, the file that the run keeps, stays unchanged: a later command chooses its own
// output. Throws Error(usage) for values that an observer refuses, and for one that no plugin has.
void talk_as_asked(const CommandLine& line, const Registry& registry, Pipeline& pipeline) {
  if (line.json) table_of("metrics", registry, pipeline).set("standard_output", Value(true));
  if (line.top) table_of("top", registry, pipeline);
  if (!line.page.empty()) {
    Value& page = table_of("page", registry, pipeline);
    page.set("address", Value(line.page));
    Diagnostics errors;
    registry.observers().find("page")->check(page, "--page", errors);
    errors.throw_if_any();
  }
  std::vector<ObserverPlan>& all = pipeline.observers;
  const auto console = std::ranges::find(all, "console", &ObserverPlan::name);
  if (console == all.end()) return;
  if (line.quiet) console->table.set("quiet", Value(true));
  if (line.draws) all.erase(console);
}

std::int64_t batches_of(const std::string& overfit) {
  try {
    return integer("--overfit", overfit, 1, Overfit::kMaxBatches);
  } catch (const Error& error) {
    fail(error.kind(), "{}; in {} steps no more batches are seen {} times each", error.message(), Overfit::kMaxSteps,
         Overfit::kLeastPasses);
  }
}

// Null if the run is not a trial.
std::shared_ptr<Trial> chosen_trial(const CommandLine& line) {
  if (line.find_rate) return std::make_shared<FindRate>(line.picture);
  if (line.overfit.empty()) return nullptr;
  return std::make_shared<Overfit>(batches_of(line.overfit));
}

void require_number(const char* option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0) return;
  fail(ErrorKind::usage, "{}: expected a number of at least 0, found '{}'", option, text);
}

// The only stage of the graph that satisfies `is_meant`. `what` (its property) and `key` (changed by the option) are for
// messages.
const StagePlan& only_stage(const GraphPlan& graph, const char* option, const char* what, const char* key,
                            bool (*is_meant)(const StagePlan&)) {
  std::vector<const StagePlan*> found;
  for (const StagePlan& stage : graph.stages) {
    if (is_meant(stage)) found.push_back(&stage);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty()) fail(ErrorKind::usage, "{}: [{}] has no stage with a {}", option, graph.name, what);
  std::vector<std::string> choices;
  for (const StagePlan* stage : found) choices.push_back(fmt::format("--set {}.{}.{}=VALUE", graph.name, stage->name, key));
  fail(ErrorKind::usage, "{}: [{}] has {} stages with a {}: write {}", option, graph.name, found.size(), what,
       fmt::join(choices, " or "));
}

// The equivalent values for --set: of [run], and of the only stage of `graph` that makes batches or has a learning rate. Throws
// Error(usage) for an invalid value, and unless there is one such stage.
std::vector<std::string> overrides_of(const ShortOptions& options, const GraphPlan& graph) {
  std::vector<std::string> overrides;
  if (!options.epochs.empty()) {
    require_number("--epochs", options.epochs);
    overrides.push_back("run.epochs=" + options.epochs);
  }
  if (!options.name.empty()) overrides.push_back("run.name=" + to_toml(Value(options.name)));
  if (!options.batch.empty()) {
    if (options.batch != "auto") integer("--batch", options.batch, 1, INT32_MAX);
    const StagePlan& batcher = only_stage(graph, "--batch", "batch size", "size",
                                          [](const StagePlan& stage) { return stage.type->role == StageType::Role::batcher; });
    overrides.push_back(fmt::format("{}.{}.size={}", graph.name, batcher.name, options.batch));
  }
  if (!options.rate.empty()) {
    require_number("--lr", options.rate);
    const StagePlan& optimizer = only_stage(graph, "--lr", "learning rate", "learning_rate",
                                            [](const StagePlan& stage) { return stage.type->takes_optimizer; });
    const Value* const rate = optimizer.table.find("learning_rate");
    const char* const inside = rate != nullptr && rate->kind() == Value::Kind::table ? ".initial" : "";
    overrides.push_back(fmt::format("{}.{}.learning_rate{}={}", graph.name, optimizer.name, inside, options.rate));
  }
  return overrides;
}

// False if there are none. They change the graph that will run; an invalid --graph is reported later.
bool apply(const ShortOptions& options, const Pipeline& pipeline, CommandLine& line) {
  const GraphPlan* const graph = line.options.graph.empty() ? &pipeline.graphs.front() : pipeline.graph(line.options.graph);
  if (options.first().empty() || graph == nullptr) return false;
  const std::vector<std::string> overrides = overrides_of(options, *graph);
  for (const std::string& made : overrides) {
    const std::string key = made.substr(0, made.find('=') + 1);
    const auto same = std::ranges::find_if(line.overrides, [&](const std::string& each) { return each.starts_with(key); });
    if (same == line.overrides.end() || *same == made) continue;
    fail(ErrorKind::usage, "--set {} and a short option, which means --set {}: choose one", *same, made);
  }
  line.overrides.insert(line.overrides.end(), overrides.begin(), overrides.end());
  return true;
}

// --weights torchvision: the same as the key, if the network's file publishes weights of this name and no file has it. False if
// not. Throws Error(usage) for the name of others.
bool take_published(CommandLine& line, const Pipeline& pipeline) {
  const std::string& word = line.options.weights;
  std::error_code ignored;
  if (word.empty() || !pipeline.network || word.find_first_of("./") != std::string::npos || fs::exists(word, ignored))
    return false;
  Diagnostics reported;  // when the network was read
  const auto document = read_document(pipeline.network_params.use, {}, reported);
  std::vector<std::string> names;
  for (const PublishedWeights& each : published_weights(document.value_or(Value()), reported)) names.push_back(each.name);
  if (names.empty()) return false;
  if (std::ranges::find(names, word) == names.end()) {
    fail(ErrorKind::usage, "--weights: {}{}; the network's file has the published weights \"{}\"", no_such_file(word),
         weights_hint(word), fmt::join(names, "\", \""));
  }
  line.overrides.push_back("network.weights=" + to_toml(Value(word)));
  line.options.weights.clear();
  return true;
}

// `has_peers`: other ranks may have what this one lacks.
Pipeline load(CommandLine& line, const Registry& registry, const std::shared_ptr<Trial>& trial, bool has_peers = false) {
  LoadOptions options{.other_weights = !line.options.weights.empty() || line.options.resume.run,
                      .sent_weights = has_peers,
                      .made_by = line.predict.empty() ? "" : kPredict};
  Pipeline pipeline = load_pipeline(line.file, line.overrides, registry, options);
  const bool is_published = take_published(line, pipeline);
  if (is_published) options.other_weights = line.options.resume.run.has_value();
  if (apply(std::exchange(line.shorts, {}), pipeline, line) || is_published) {
    pipeline = load_pipeline(line.file, line.overrides, registry, options);
  }
  talk_as_asked(line, registry, pipeline);
  if (trial) {
    const std::vector<std::string> changes = trial->overrides(pipeline);
    if (!line.check) trial->show_progress(pipeline);
    line.overrides.insert(line.overrides.end(), changes.begin(), changes.end());
    pipeline = load_pipeline(line.file, line.overrides, registry, options);
    talk_as_asked(line, registry, pipeline);
    trial->shorten(pipeline);
    line.options.hooks.observer = trial;
    line.options.hooks.rate_factor = [trial](std::uint64_t step) { return trial->rate_factor(step); };
    line.options.most_steps = trial->most_steps();
    line.options.only_main = true;
  }
  if (line.check && !line.options.resume.run) pipeline.checkpoint.resume = false;
  return pipeline;
}

// Also with --quiet: nothing else reports that the run was stopped.
void say_how_to_resume(const Ended& result) {
  if (result.signal != 0 && !result.go_on.empty()) print_to_stderr("to resume: {}\n", result.go_on);
}

void say_where(const CommandLine& line, const Ended& result) {
  if (line.quiet) return say_how_to_resume(result);
  if (!result.weights_file.empty()) {
    print_to_stderr("weights: {}\n", result.weights_file);
  } else if (!result.folder.empty()) {
    print_to_stderr("folder: {}\n", result.folder);
  }
  if (!result.best.empty()) print_to_stderr("best weights: {}\n", result.best);
  say_how_to_resume(result);
}

// Prints a trial's result and returns its exit code.
int conclude(const CommandLine& line, const Trial& trial, const Ended& result) {
  const auto say = [&](const std::string& text) {
    line.json ? print_to_stderr("{}", text) : fmt::print("{}", terminal_text(text));
  };
  if (result.signal != 0) {
    say(fmt::format("interrupted after step {}: the trial has no result\n", result.step));
    return 128 + result.signal;
  }
  say(trial.text());
  say(trial.write_files());
  return trial.succeeded() ? 0 : 1;
}

// `speaks`: this process prints for all of them.
void check_run(const CommandLine& line, const Pipeline& pipeline, const Registry& registry, const std::shared_ptr<Trial>& trial,
               bool speaks) {
  const std::unique_ptr<PreparedRun> prepared = prepare(pipeline, registry, line.options);
  leave_on_error(*prepared, [&] {
    if (trial) trial->check(*prepared);
    prepared->open_graphs();
    examine(*prepared, Known::graphs);
    gather_warnings(*prepared);
    const std::string report = check_report(*prepared);
    if (speaks) line.json ? print_to_stderr("{}", report) : fmt::print("{}", terminal_text(report));
    require_memory_of(*prepared);
    leave_together(*prepared);
  });
}

// Returns the exit code. `begins`: called before the pipeline runs.
int drive(const CommandLine& line, Pipeline& pipeline, const Registry& registry, const std::shared_ptr<Trial>& trial, bool speaks,
          const std::function<void(PreparedRun&)>& begins = {}) {
  if (line.check) {
    check_run(line, pipeline, registry, trial, speaks);
    return 0;
  }
  if (!line.explain.empty()) {
    pipeline.observers.clear();
    fmt::print("{}", terminal_text(explain_numbers(pipeline, registry, line.options, line.explain)));
    return 0;
  }
  std::uint64_t to_verify = line.verify;
  const Ended result = run_with_rollbacks(pipeline, registry, line.options, [&](PreparedRun& prepared) {
    const auto say = [&](const std::string& text) {
      if (!line.quiet && speaks && !text.empty()) print_to_stderr("{}\n", text);
    };
    if (trial) trial->check(prepared);
    if (begins) begins(prepared);
    say(prepared.batch_choice);
    say(prepared.load_choice);
    if (const std::uint64_t batches = std::exchange(to_verify, 0); batches > 0) say(verify(prepared, batches));
  });
  say_where(line, result);
  if (trial) return conclude(line, *trial, result);
  if (result.signal != 0) return 128 + result.signal;
  return result.not_finite ? exit_code(ErrorKind::run) : 0;
}

// At the end of a prediction that was not stopped. Throws Error(data) if no image could be used.
void say_of_bad_images(const ImageCount& images, const std::string& ledger) {
  if (images.bad() == 0) return;
  if (images.used() == 0) {
    fail(ErrorKind::data, "--predict: no image could be used: '{}' names {}; the first is {}", ledger,
         images.bad() == 1 ? "it" : fmt::format("all {}", images.bad()), images.first_bad());
  }
  print_to_stderr("warning: {} could not be used: '{}' names {}\n",
                  images.bad() == 1 ? "1 image" : fmt::format("{} images", images.bad()), ledger,
                  images.bad() == 1 ? "it" : "them");
}

// --strict: checks all images of all pipelines before anything is written.
void require_like_training(CommandLine& line, const std::vector<std::string>& files, const Registry& registry) {
  RunOptions options = line.options;
  options.only_check = true;
  options.hooks.observer = nullptr;
  for (const std::string& file : files) {
    line.file = file;
    Pipeline pipeline = load(line, registry, nullptr);
    pipeline.observers.clear();  // the run itself warns
    const std::unique_ptr<PreparedRun> prepared = prepare(pipeline, registry, options);
    const auto images = image_summary_from(prepared->weights.metadata);
    if (!images) continue;
    options.doing("comparing all images with those of the training");
    const std::string text = unlike_images(*images, prepared->main(), std::numeric_limits<std::uint64_t>::max(),
                                           static_cast<unsigned>(prepared->data_threads()));
    if (!text.empty()) fail(ErrorKind::data, "--strict: {}. Nothing was predicted", text);
  }
}

// If its weights have scales for int8, and no other precision is asked for: replaces the network and the weights, in `folder`.
void use_int8(Pipeline& pipeline, CommandLine& line, const Registry& registry, std::optional<ScratchFolder>& folder) {
  const auto sets_precision = [](const std::string& each) { return each.starts_with("run.precision="); };
  if (std::ranges::any_of(line.overrides, sets_precision)) return;
  const std::string file = local_weights({pipeline.network_params.weights.file, ""}, registry, [](const std::string&) {});
  Model model;
  model.metadata = read_tensors_metadata(file);
  const std::optional<Int8Table> table = int8_table_from(model.metadata, file);
  const std::string& devices = line.options.devices.empty() ? pipeline.run.devices : line.options.devices;
  if (!table || find_devices(devices, registry).backend->name() != kHostBackend) return;
  WeightsSource source{.file = file, .fresh = {}, .rename = {}};
  source.is_measured = true;
  model.weights = load_weights(source, *pipeline.network);
  model.network = pipeline.network;
  model = in_int8(std::move(model), *table);
  if (!folder) folder.emplace("int8");
  line.options.weights = (folder->path() / "int8.safetensors").string();
  save_weights_file(line.options.weights, *model.network, model.weights, model.metadata);
  pipeline.network = model.network;
  pipeline.run.precision = "fp32";
}

// Returns the exit code. `made`: files that describe the run.
int run_predictions(CommandLine& line, const Registry& registry, MadeFiles& made) {
  const std::vector<std::string> files = write_prediction(
      {line.predict, std::exchange(line.options.weights, {}), line.out, line.labels, line.overrides, line.options.hooks.notice},
      registry, made);
  line.options.graph = "predict";
  line.options.folders.outputs = std::filesystem::absolute(line.out).string();
  line.options.keeps_to_memory = true;
  const auto images = std::make_shared<ImageCount>();
  line.options.hooks.observer = images;
  if (line.strict) require_like_training(line, files, registry);
  int code = 0, worst = 0;
  std::size_t number = 0;
  std::optional<ScratchFolder> scratch;
  for (const std::string& file : files) {
    ++number;
    line.file = file;
    Pipeline pipeline = load(line, registry, nullptr);
    use_int8(pipeline, line, registry, scratch);
    code = drive(line, pipeline, registry, nullptr, true, [&](PreparedRun& prepared) {
      // Errors of stages that write are reported before anything is kept.
      if (pipeline.run.folder.empty()) prepared.open_graphs();
      if (file == files.front()) remove_old_prediction(line.out, made);
      made.keep();
    });
    worst = std::max(worst, code);
    if (code > exit_code(ErrorKind::run)) break;
  }
  if (line.check) return code;
  if (code > exit_code(ErrorKind::run) && images->passes() < files.size()) {
    print_to_stderr(
        "interrupted: the predictions in '{}' are not complete{}\n", line.out,
        files.size() == 1 ? "" : fmt::format("; '{}' was under way, number {} of {}", line.file, number, files.size()));
    return code;
  }
  say_of_bad_images(*images, line.out + (files.size() == 1 ? "/quarantine.jsonl" : "/quarantine-*.jsonl"));
  if (!line.quiet) print_to_stderr("predictions: {}\n", line.out);
  return worst;
}

// The program's own exit, in addition to the end of main().
void leave(int code) {
  LastWords::none();
  _exit(code);
}

// --predict: generated pipelines replace a named one, and run one after the other.
int predict(CommandLine& line, const Registry& registry) {
  Activity activity;
  const SignalWatch signals(activity, leave);
  line.options.hooks.activity = &activity;
  line.options.hooks.stop_signal = &signals.signal();
  line.options.hooks.checkpoint_signals = &signals.checkpoints();
  if (line.out.empty()) line.out = "predictions";
  std::optional<TraceFile> trace;
  if (line.trace) trace.emplace(*line.trace, 0);
  MadeFiles made;
  return run_predictions(line, registry, made);
}

// Errors that a call can report must not end the training: `pipeline-run --json | head` ends the reader, and a file size limit
// (ulimit -f) acts like a full disk.
void ignore_signals_of_files() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// --predict -: nothing is saved, so a signal ends it at once.
int answer_lines(const CommandLine& line, const Registry& registry) {
  if (line.trace) fail(ErrorKind::usage, "--predict - runs no graph: leave out --trace");
  ignore_signals_of_files();
  Activity activity;
  activity.set("answering paths", false);
  const SignalWatch signals(activity, leave);
  answer_paths({"--predict -", line.options.weights, line.options.devices, line.options.hooks.notice}, std::cin, registry);
  return 0;
}

// A signal ends it behind the current answer.
int watch(const CommandLine& line, const Registry& registry) {
  ignore_signals_of_files();
  Activity activity;
  const SignalWatch signals(activity, leave);
  watch_folder({{"--watch", line.options.weights, line.options.devices, line.options.hooks.notice}, line.watch, line.out},
               signals.signal(), activity, registry);
  return 128 + signals.signal();
}

// Mistakes in the file are reported once, so it is loaded before ranks are started.
int run_ranks(CommandLine& line, const RankPlace& launched, const Registry& registry, const std::shared_ptr<Trial>& trial,
              Pipeline& pipeline) {
  StartedRanks started(line.processes, line.ranks);  // before any thread starts
  const RankPlace place = line.processes > 1 ? started.place() : launched;
  Activity activity;
  const SignalWatch signals(activity, leave);
  std::optional<SocketGroup> group;
  if (place.ranks > 1) {
    try {
      SocketGroup::Setting setting = join_ranks(place, line.ranks, pipeline.run.folder, line.quiet);
      setting.doing = [&] { return activity.text(); };
      line.options.group = &group.emplace(std::move(setting));
    } catch (const Error& error) {
      const int signal = started.end(1);  // the others have nothing to save yet
      if (signal != 0 && error.kind() == ErrorKind::peer) return 128 + signal;
      throw;
    }
  }
  ignore_signals_of_files();
  std::optional<TraceFile> trace;
  if (line.trace) trace.emplace(*line.trace, place.rank);
  line.options.hooks.activity = &activity;
  line.options.hooks.stop_signal = &signals.signal();
  line.options.hooks.checkpoint_signals = &signals.checkpoints();
  try {
    if (group) require_same_command(line, *group);
    return drive(line, pipeline, registry, trial, line.options.is_first(), [&](PreparedRun& prepared) {
      const std::string mistake = line.trace ? trace_mistake(*line.trace, prepared.steps.end) : "";
      prepared.audience.warn_once(mistake);
    });
  } catch (Error& error) {
    constexpr int kPatience = 4;  // seconds for the others, which were notified; a frozen one cannot react
    if (group) group->leave(&error);
    const int signal = started.end(kPatience);
    if (signal != 0 && error.kind() == ErrorKind::peer) return 128 + signal;
    if (place.rank == 0) throw;
    if (line.processes > 1 && error.kind() == ErrorKind::usage) return exit_code(error.kind());  // rank 0 reports the same
    throw error.in(fmt::format("rank {}", place.rank));
  }
}

int run(CommandLine& line) {
  const LastWords last_words("pipeline-run");
  const RankPlace place = rank_place(line);
  Registry registry;
  std::shared_ptr<Trial> trial;
  Pipeline pipeline;
  if (!line.quiet) line.options.hooks.notice = [](const std::string& text) { print_to_stderr("{}\n", text); };
  try {
    if (!line.run_option.empty() && !line.quiet) print_to_stderr("{}: runs '{}'\n", line.run_option, line.file);
    choose_weights_of_run(line);
    load_plugins(registry);
    if (line.predict == std::vector<std::string>{"-"}) return answer_lines(line, registry);
    if (!line.watch.empty()) return watch(line, registry);
    if (!line.predict.empty()) {
      ignore_signals_of_files();
      return predict(line, registry);
    }
    trial = chosen_trial(line);
    if (line.draws) line.options.hooks.observer = std::make_shared<ScreenWatch>();  // a trial prints its own output
    pipeline = load(line, registry, trial, place.ranks > 1);
  } catch (const Error& mistake) {
    if (place.ranks == 1) throw;
    print_to_stderr("pipeline-run: rank {}: {}\n", place.rank, mistake.what());  // before it looks for the others
    tell_other_ranks(place, line, mistake);
    return exit_code(mistake.kind());
  }
  return run_ranks(line, place, registry, trial, pipeline);
}

}  // namespace

}  // namespace millrace

int main(int argc, char** argv) {
  millrace::SignalWatch::block();
  return millrace::run_tool("pipeline-run", [&] {
    std::optional<millrace::CommandLine> line = millrace::read_command_line(argc, argv);
    return line ? millrace::run(*line) : 0;
  });
}
