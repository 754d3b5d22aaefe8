#include "run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/out_of_memory.h"
#include "millrace/detail/split.h"
#include "millrace/error.h"
#include "millrace/util/cache_folder.h"
#include "run/median_weights.h"
#include "run/stop_rules.h"
#include "run/training.h"
#include "run/weights.h"
#include "run/without_effect.h"

namespace millrace {

Session::Session(const Pipeline& pipeline, const Registry& registry, SessionOptions options)
    : pipeline_(pipeline), registry_(registry), options_(std::move(options)) {
  try {
    make();
  } catch (...) {
    const Error error = current_error();
    if (!lacks_memory(error)) throw;
    throw with_memory(error, options_.activity != nullptr ? options_.activity->text() : "");
  }
}

void Session::make() {
  if (!options_.graph.empty() && !pipeline_.graph(options_.graph)) {
    std::vector<std::string> names;
    for (const GraphPlan& graph : pipeline_.graphs) names.push_back(graph.name);
    const auto near = nearest_name(options_.graph, names);
    fail(ErrorKind::usage, "{}: no graph '{}'; there {} {}{}", pipeline_.title(), options_.graph,
         names.size() == 1 ? "is" : "are", fmt::join(names, ", "), near ? fmt::format("; nearest is '{}'", *near) : "");
  }
  check_name();
  make_observers();
  if (!options_.notice.empty()) observers_.warn(options_.notice);
  if (is_first()) {
    for (const std::string& text : pipeline_.warnings) observers_.warn(text);
  }
  find_checkpoint();
  if (pipeline_.network) choose_weights();
  if (options_.group != nullptr) options_.processes = options_.group->size();
  if (options_.processes > 1) check_processes();
  if (pipeline_.network) {
    read_weights();
    choose_devices();
  }
  build_graphs();
  compare_usage();
  read_network_text();
  if (pipeline_.network && (resumed_ || !options_.only_check)) count_median_weights();
  if (resumed_) {
    keep_batch();
    check_changes();  // with the numbers in place of words that leave them to the run
  }
  warn_of_limit();
  compile();

  for (const auto& figure : {pipeline_.best, pipeline_.stop.figure, pipeline_.plateau.figure, pipeline_.checkpoint.best}) {
    if (figure) require_figure(*figure, builds_);
  }
  place_steps();
  warn_of_no_effect();
  for (const auto& build : builds_) {
    StepContext context;
    for (const auto& replica : replicas_) context.replicas.push_back(replica.get());
    for (const auto& device : devices_.devices) context.devices.push_back(device.get());
    context.load = pipeline_.run.load;
    if (context.load.empty()) context.load.assign(devices_.all_replicas, 1.0);
    context.first_replica = static_cast<int>(devices_.first_replica);
    context.total_steps = total_steps_;
    context.last_step = last_step_;
    context.hash_input = options_.hash_input;
    build->add_step_stages(std::move(context));
  }
  check_on_nan();
}

Session::~Session() {
  leave("it was given up");
  checkpoints_ = nullptr;  // before the replicas that it may still fetch from
}

// First of all, so that what the rest warns of is heard.
void Session::make_observers() {
  if (!is_first()) {
    reporter_ = std::make_unique<Reporter>(*options_.group);
    return observers_.add("process 0", Delivery::all, std::make_shared<RelayObserver>(*reporter_),
                          requests_.control("observer of process 0"));
  }
  Diagnostics errors;
  for (const ObserverPlan& plan : pipeline_.observers) {
    if (auto observer = plan.type->create(plan.table, "[observe." + plan.name + "]", errors)) {
      observers_.add(plan.name, plan.type->delivery, std::move(observer), requests_.control("observer " + plan.name));
    }
  }
  errors.throw_if_any();
  if (options_.observer) observers_.add("the program", Delivery::all, options_.observer, control_);
}

void Session::doing(std::string what) const {
  if (options_.activity) options_.activity->set(std::move(what), false);
}

// A graph that is run alone and does not train runs for one epoch.
void Session::place_steps() {
  const GraphBuild& main = *builds_.front();
  const std::uint64_t an_epoch = main.steps_per_epoch();
  const std::uint64_t epoch = options_.from.epoch;
  const std::optional<std::uint64_t> with_other_batches = step_with_other_batches();
  const std::uint64_t step = with_other_batches.value_or(options_.from.step);
  const double epochs = options_.graph.empty() || main.trains() ? pipeline_.run.epochs : static_cast<double>(epoch + 1);
  total_steps_ = static_cast<std::uint64_t>(std::ceil(epochs * static_cast<double>(an_epoch) - 1e-9));
  first_step_ = epoch * an_epoch + step;
  if (!with_other_batches && step > 0 && step >= an_epoch) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of an epoch: [{}] has {}", pipeline_.title(), step + 1,
         main.plan().name, an_epoch);
  }
  const bool at_end = resumed_ && first_step_ == total_steps_;  // nothing is left to do
  if (first_step_ > 0 && first_step_ >= total_steps_ && !at_end) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of epoch {}: it ends after {:g} epochs, {} steps",
         pipeline_.place_of("run.epochs"), step + 1, epoch + 1, epochs, total_steps_);
  }
  if (options_.most_steps > 0) total_steps_ = std::min(total_steps_, first_step_ + options_.most_steps);
  last_step_ = total_steps_;
  const std::uint64_t most = pipeline_.stop.max_steps;
  if (most == 0 || !main.trains()) return;
  if (first_step_ >= most && !(resumed_ && first_step_ == most)) {
    fail(ErrorKind::usage, "{}: the run cannot begin with step {} of epoch {}: stop.max_steps = {}",
         pipeline_.place_of("stop.max_steps"), step + 1, epoch + 1, most);
  }
  last_step_ = std::min(last_step_, most);
}

void Session::warn_of_no_effect() {
  if (!is_first() || !options_.graph.empty() || options_.only_main || options_.replays) return;
  const GraphBuild& main = *builds_.front();
  const RunLength length{.trains = main.trains(), .steps = last_step_, .steps_per_epoch = main.steps_per_epoch()};
  for (std::string& text : without_effect(pipeline_, length)) observers_.warn(std::move(text));
}

DataContext Session::shared_context() const {
  DataContext context;
  context.seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  context.network = pipeline_.network.get();
  if (pipeline_.network) context.window = pipeline_.network->input;
  context.run = log_.get();
  context.registry = &registry_;
  context.group = options_.group;
  if (weights_from_.fresh.empty()) {  // else those of another task
    context.classes = classes_from(metadata_);
    context.colours = colours_from(metadata_);
  }
  return context;
}

void Session::build_graphs() {
  RunLog::Options log;
  log.log_every = static_cast<std::uint64_t>(pipeline_.run.log_every);
  log.stepping_graph = options_.graph.empty() ? pipeline_.graphs.front().name : options_.graph;
  log.rate_factor = options_.rate_factor;
  log.skips = pipeline_.run.on_nan == "skip" && !options_.replays;
  log.most_in_a_row = static_cast<std::uint64_t>(pipeline_.run.nan_limit);
  log.steps_are_reported = has_reports(*pipeline_.graph(log.stepping_graph));
  log_ = std::make_unique<RunLog>(log, observers_, requests_);
  for (const GraphPlan& plan : pipeline_.graphs) {
    if (options_.graph.empty() ? plan.when.never : plan.name != options_.graph) continue;
    if (options_.only_main && !builds_.empty()) break;
    doing(fmt::format("listing the samples of [{}]", plan.name));
    builds_.push_back(std::make_unique<GraphBuild>(plan, shared_context()));
    builds_.back()->require_steps();
    builds_.back()->require_targets();
    builds_.back()->require_classes_of(*builds_.front());
  }
  warn_of_graphs();
}

void Session::count_median_weights() {
  std::string asking;
  for (const auto& build : builds_) asking = asking.empty() ? place_of_median_weights(build->plan()) : asking;
  if (asking.empty()) return;
  const GraphPlan& plan = pipeline_.graphs.front();
  std::unique_ptr<GraphBuild> alone;  // where another graph runs without it
  if (&builds_.front()->plan() != &plan) alone = std::make_unique<GraphBuild>(plan, shared_context());
  const GraphBuild& main = alone ? *alone : *builds_.front();
  doing(fmt::format("counting the pixels of each class of [{}]", plan.name));
  try {
    median_weights_ = median_frequency_weights(main, {.classes = static_cast<std::size_t>(pipeline_.network->output()[0]),
                                                      .seed = static_cast<std::uint64_t>(pipeline_.run.seed),
                                                      .threads = static_cast<unsigned>(data_threads()),
                                                      .cache = cache_folder("class_weights")});
  } catch (Error& error) {
    throw error.in(asking);
  }
  for (const auto& build : builds_) build->set_median_weights(median_weights_);
}

// Before anything is listed: what is asked for may not be there.
void Session::choose_devices() {
  doing("opening devices");
  const bool by_option = !options_.devices.empty();
  try {
    const auto rank = static_cast<std::size_t>(options_.group ? options_.group->rank() : 0);
    const auto ranks = static_cast<std::size_t>(options_.group ? options_.group->size() : 1);
    devices_ = open_devices(
        by_option ? options_.devices : pipeline_.run.devices, pipeline_.run.load, registry_,
        [this](std::string_view message) { observers_.warn(std::string(message)); }, rank, ranks);
    check_replicas(by_option ? options_.devices : pipeline_.run.devices, devices_.all_replicas,
                   static_cast<std::size_t>(options_.processes));
  } catch (Error& error) {
    if (by_option) throw error.in("--devices");
    const Value* run = pipeline_.resolved.find("run");
    for (const char* key : {"devices", "load"}) {  // shares that are too many for "auto" are all that is written
      if (const Value* written = run ? run->find(key) : nullptr) throw error.in(to_string(written->at()));
    }
    throw;
  }
  precision_ = choose_precision(pipeline_.run.precision, devices_);
}

int Session::data_threads() const {
  if (pipeline_.run.threads > 0) return static_cast<int>(pipeline_.run.threads);
  return static_cast<int>(devices_.cores.data.empty() ? available_cores().size() : devices_.cores.data.size());
}

GraphOptions Session::graph_options(std::size_t g) const {
  const auto& build = builds_[g];
  GraphOptions graph;
  if (!resident_sets_.empty()) graph.resident_set = resident_sets_[g];
  graph.seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  graph.chunk = static_cast<std::uint32_t>(pipeline_.run.chunk);
  graph.samples_per_epoch = build->samples();
  graph.batch_size = build->batch().size;
  graph.guard = options_.guard;
  graph.steps_per_epoch = build->steps_per_epoch();
  graph.image = build->image();
  graph.target = build->target();
  graph.numbers = build->source() ? build->source()->numbers() : 0;
  graph.has_rows = build->source() && build->source()->has_rows();
  graph.window = pipeline_.network ? pipeline_.network->input : build->image();
  if (options_.group != nullptr) {
    graph.load = pipeline_.run.load;
    if (graph.load.empty()) graph.load.assign(devices_.all_replicas, 1.0);
    graph.first_replica = static_cast<std::uint32_t>(devices_.first_replica);
    graph.replicas = static_cast<std::uint32_t>(replicas_.size());
  }
  if (!devices_.devices.empty()) {
    graph.host_buffer = [device = devices_.devices.front().get()](std::size_t bytes) { return device->host_buffer(bytes); };
  }
  return graph;
}

void Session::prepare() {
  if (!graphs_.empty()) return;
  if (options_.keeps_to_memory) keep_to_memory();
  if (log_->folder().empty() && !options_.only_main) log_->expect_folder(pipeline_.run.folder);
  workers_ = std::make_unique<Workers>(data_threads(), static_cast<int>(pipeline_.run.io_threads), devices_.cores.data);
  for (std::size_t g = 0; g < builds_.size(); ++g) {
    const auto& build = builds_[g];
    doing(fmt::format("opening the stages of [{}]", build->plan().name));
    build->open_stages();
    graphs_.push_back(std::make_unique<Graph>(build->plan(), build->stages(), graph_options(g), *workers_));
  }
}

RunResult Session::run() {
  RunEnd end;
  RunResult result;
  try {
    result = train();
    if (options_.group != nullptr) {
      observers_.flush({});  // has sent what this process has to tell
      options_.group->barrier(Group::kRun);
    }
    leave("");
  } catch (...) {
    Error error = current_error();
    if (lacks_memory(error)) error = with_memory(error, "");
    leave(error.what());
    checkpoints_ = nullptr;  // what it still writes is told before the end
    if (best_left_ && !log_->folder().empty()) save_best({});
    error = wrong_number() && error.kind() == ErrorKind::run ? with_advice(error) : with_checkpoint(error);
    end.error = error.what();
    try {
      end_observers(std::move(end));
    } catch (const Error& lost) {
      observers_.warn(lost.what());
    }
    throw error;
  }
  end.epoch = result.epoch;
  end.step = result.step;
  end.signal = result.signal;
  end.stopped = result.stopped;
  end.weights_file = result.weights_file;
  try {
    end_observers(std::move(end));
  } catch (const Error& error) {
    if (result.weights_file.empty()) throw;
    fail(ErrorKind::run, "{}; the run is done, and its weights are in '{}'", error.what(), result.weights_file);
  }
  return result;
}

RunResult Session::train() {
  const std::filesystem::path folder = run_folder();
  observers_.restart_clock(resumed_ ? resumed_->checkpoint.state.seconds : 0);
  make_checkpoints(folder);
  log_->open(folder, resolved(), resumed_.has_value());
  prepare();
  warn_of_memory();
  make_agreements();
  watch_gates();
  share_reports();
  start_replicas();
  if (resumed_) {
    restore_stages();
    restore_batches();
    if (is_first()) log_->restore_bad_samples(resumed_->checkpoint.state);  // the others tell it theirs
  }

  std::function<void(RunState, bool, Checkpoints::Clock::time_point)> write_checkpoint;
  if (has_checkpoints()) {
    write_checkpoint = [this](RunState state, bool best, Checkpoints::Clock::time_point since) {
      checkpoint(std::move(state), best, since);
    };
  }
  Training training({.pipeline = pipeline_,
                     .options = options_,
                     .builds = builds_,
                     .graphs = graphs_,
                     .replicas = replicas_,
                     .all_replicas = devices_.all_replicas,
                     .evaluated = evaluated_,
                     .first_step = first_step_,
                     .total_steps = last_step_,
                     .shortened = last_step_ < total_steps_,
                     .log = *log_,
                     .observers = observers_,
                     .requests = requests_,
                     .agreements = agreements_,
                     .started = [this] { receive_reports(); },
                     .save = [this](const std::string& name) { return save_weights(name); },
                     .save_best = [this](const std::optional<BestWeights>& found) { return save_best(found); },
                     .best_waits = best_left_ ? std::optional(best_left_->best.step) : std::nullopt,
                     .resumed = resumed_ ? &resumed_->checkpoint.state : nullptr,
                     .resumed_from = resumed_ ? resumed_->path : std::filesystem::path(),
                     .checkpoints = checkpoints_.get(),
                     .newest_checkpoint = [this] { return newest_checkpoint_words(); },
                     .checkpoint = std::move(write_checkpoint)});
  RunResult result = training.run();
  result.folder = folder.string();
  graphs_.clear();  // stages stop, and may warn of what they could not finish
  if (!builds_.front()->trains()) return result;
  if (options_.activity) options_.activity->set("the weights to be written", true);
  save_results(result);
  return result;
}

void Session::end_observers(RunEnd end) {
  end.bad_samples = log_->bad_samples();
  observers_.end(std::move(end), [this](const std::string& observer) {
    if (options_.activity) options_.activity->set("observer " + observer, true);
  });
}

}  // namespace millrace
