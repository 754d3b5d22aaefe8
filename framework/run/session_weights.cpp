// A session's weights: where they come from, into the replicas, and out of them.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "config/document.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "network/tensor_file.h"
#include "run/best_checkpoint.h"
#include "run/fetched_weights.h"
#include "run/median_weights.h"
#include "run/probe.h"
#include "run/session.h"
#include "run/stop_rules.h"
#include "run/weights.h"

namespace millrace {
namespace {

constexpr const char *kLastWeights = "weights.safetensors", *kBestWeights = "best.safetensors";

}  // namespace

// What [network] says of `weights` holds for --weights too. But a graph that does not train, and a run that goes on at a later
// step, take the file that a run of this network has written: all of it, by its own names.
void Session::choose_weights() {
  if (resumed_) return;  // the checkpoint's
  const NetworkParams& said = pipeline_.network_params;
  const GraphPlan& main = options_.graph.empty() ? pipeline_.graphs.front() : *pipeline_.graph(options_.graph);
  const bool given = !options_.weights.empty(), begins = options_.from.epoch == 0 && options_.from.step == 0;
  if (given && !(trains(main) && begins)) {
    weights_from_.file = options_.weights;
    return;
  }
  if (!given && !begins && trains(main) && !said.weights.file.empty()) {
    fail(ErrorKind::usage,
         "{}: --from goes on with a run, and [network] weights = \"{}\" begins one: name that run's weights, "
         "--weights FILE",
         pipeline_.place_of("network.weights"), said.weights.file);
  }
  weights_from_ = {.file = given ? options_.weights : said.weights.file,
                   .fresh = said.fresh,
                   .rename = said.rename,
                   .sha256 = given ? "" : said.sha256,
                   .inside = said.weights.inside};
  if (options_.only_main) return;
  if (weights_from_.file.empty() && trains(main)) warn_of_frozen();
  if (weights_from_.file.empty() && !(said.fresh.empty() && said.rename.empty())) {
    fail(ErrorKind::usage,
         "{}: [network] has '{}', and there are no weights to take: weights = \"FILE\" in it, or --weights FILE",
         pipeline_.place_of(said.fresh.empty() ? "network.rename" : "network.new"), said.fresh.empty() ? "rename" : "new");
  }
  if (!trains(main) && !said.fresh.empty()) {
    fail(ErrorKind::usage,
         "{}: [{}] does not train, and layers of new = [\"{}\"] would begin with new values: name the weights of a run that has "
         "trained them, --weights FILE",
         pipeline_.place_of("network.new"), main.name, fmt::join(said.fresh, "\", \""));
  }
}

// Where all parameters begin new.
void Session::warn_of_frozen() {
  const std::vector<Parameter>& all = pipeline_.network->parameters;
  const auto stays_random = [&](const Parameter& p) {
    return begins_random(p) && covers_any(pipeline_.network_params.freeze, p.name);
  };
  const auto random = std::ranges::find_if(all, stays_random);
  if (random == all.end() || !is_first()) return;
  observers_.warn(
      fmt::format("{}: freeze: '{}' begins with random values and is never trained, as there are no weights to take: name them, "
                  "weights = \"FILE\" in [network] or --weights FILE",
                  pipeline_.place_of("network.freeze"), random->name));
}

// Before anything is listed, since they may not fit.
void Session::read_weights() {
  if (resumed_) metadata_ = resumed_->checkpoint.state.metadata;
  if (weights_from_.file.empty()) return;
  const std::string& given = options_.weights;
  std::error_code ignored;
  if (!given.empty() && given.find("://") == std::string::npos && !std::filesystem::exists(given, ignored))
    fail(ErrorKind::usage, "--weights: {}", no_such_file(given));
  if (is_remote(weights_from_.file)) weights_from_.url = weights_from_.file;
  weights_from_.file =
      local_weights({weights_from_.file, weights_from_.sha256}, registry_, [this](std::string what) { doing(std::move(what)); });
  doing(fmt::format("reading the weights '{}'", weights_from_.file));
  try {
    metadata_ = read_tensors_metadata(weights_from_.file);
    weights_ = load_weights(weights_from_, *pipeline_.network);
  } catch (Error& error) {
    if (weights_from_.url.empty()) throw;
    if (error.kind() == ErrorKind::data) {  // such as a page that says who may have the file
      std::filesystem::remove(weights_from_.file, ignored);
      error.in("deleted, as it holds no weights");
    }
    throw error.in(fmt::format("'{}'", weights_from_.url));
  }
}

// What the weights were validated with, beside what this file does with them. Training on other images may well be meant;
// figures and predictions would be wrong without a word.
void Session::compare_usage() {
  usage_ = usage_of(pipeline_, builds_);
  if (usage_) usage_->unrepeatable = mistake_in_recipe(*usage_, registry_);
  const bool compares = pipeline_.network_params.preprocessing == "compare" && !weights_from_.file.empty();
  if (!usage_ || !compares || resumed_ || options_.only_main) return;
  const auto stored = usage_from(metadata_, weights_from_.file);
  if (!stored) return;
  const Diagnostics found = disagreements(*stored, *usage_, !weights_from_.fresh.empty());
  if (found.empty()) return;
  const std::string text = fmt::format(
      "{}\nthe weights '{}' say how [{}] of the run that wrote them prepared images, and {} does otherwise: change it, or say "
      "that it is meant, preprocessing = \"mine\" in [network] (--set network.preprocessing=mine)",
      found.text(), weights_from_.file, stored->graph, pipeline_.title());
  if (!builds_.front()->trains()) fail(ErrorKind::usage, "{}", text);
  if (is_first()) observers_.warn(text);
}

void Session::start_replicas() {
  doing("allocating the network's memory and writing its weights");
  for (const auto& replica : replicas_) replica->start();
  if (replicas_.empty()) return;
  if (resumed_) return restore_replicas();
  const GraphBuild& main = *builds_.front();
  const bool learns = !pipeline_.network->parameters.empty();
  if (learns && has_predictions(main.plan()) && !main.trains() && weights_from_.file.empty() && !options_.only_main) {
    fail(ErrorKind::usage,
         "{}: [{}] makes predictions, and the network has not learned anything: name its weights, --weights FILE",
         to_string(main.plan().at), main.plan().name);
  }
  const auto seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  Weights weights = std::exchange(weights_, {});
  weights.resize(pipeline_.network->parameters.size());
  for (int p = 0; const Parameter& parameter : pipeline_.network->parameters) {  // never is there a second copy of all
    std::vector<float> values = std::move(weights[static_cast<std::size_t>(p)]);
    if (values.empty()) values = first_values(parameter, *pipeline_.network, seed, main);
    for (const auto& replica : replicas_) replica->write(kValue, p, values);
    ++p;
  }
  malloc_trim(0);  // what was read goes back to the system
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

void Session::exchange_evaluated() {
  for (const auto& replica : replicas_) {
    if (!evaluated_.empty()) replica->exchange(evaluated_);
    replica->finish();
  }
}

std::map<std::string, std::string> Session::weights_metadata() const {
  std::map<std::string, std::string> metadata = plans_of(replicas_, devices_.devices);
  metadata.merge(metadata_of(builds_.front()->classes()));
  if (usage_) metadata.merge(metadata_of(usage_as_run()));
  return metadata;
}

// Those that other graphs see, which `use` reads from the replicas while it writes them. All processes call it; `use` is called
// where this one writes files. `more`: metadata.
void Session::with_weights(const std::function<void(WeightsFile& weights)>& use, std::map<std::string, std::string> more) {
  if (pipeline_.run.folder.empty() || options_.only_main) return;
  std::map<std::string, std::string> metadata = weights_metadata();
  metadata.merge(more);
  exchange_evaluated();
  try {
    const auto statistics = mean_statistics(replicas_, *pipeline_.network, pipeline_.run.load, options_.group);
    const auto fetch = [&](int parameter) {
      const auto found = statistics.find(parameter);
      return found != statistics.end() ? found->second : replicas_.front()->read(kValue, parameter);
    };
    WeightsFile weights(*pipeline_.network, fetch, std::move(metadata));
    if (is_first()) use(weights);
  } catch (...) {
    const Error error = current_error();
    exchange_evaluated();
    throw error;
  }
  exchange_evaluated();
}

// Values that are not finite are Error(run), with what to do about them.
void Session::write_finite(const WeightsFile& weights, const std::string& path) const {
  try {
    weights.write(path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::run) throw with_advice(error);
    throw;
  }
}

std::string Session::save_weights(const std::string& name) {
  std::string file;
  with_weights([&](WeightsFile& weights) {
    const std::string path = (log_->folder() / name).string();
    write_finite(weights, path);
    file = path;
  });
  return file;
}

// Returns why the disk does not take them; "": it has.
std::string Session::write_best(const WeightsFile& weights, const std::string& path) const {
  try {
    write_finite(weights, path);
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::storage) throw;
    return error.what();
  }
}

// Best weights that the disk does not take wait in memory.
void Session::keep_best(BestLeft left) {
  best_left_ = std::move(left);
  if (std::exchange(told_of_best_, true)) return;
  observers_.warn(fmt::format("the best weights, after step {}, wait in memory and are tried again: {}", best_left_->best.step,
                              best_left_->cause));
}

BestSaved Session::save_best(const std::optional<BestWeights>& found) {
  const std::string path = (log_->folder() / kBestWeights).string();
  BestSaved saved;
  if (found) {
    best_left_.reset();
    with_weights(
        [&](WeightsFile& weights) {
          std::string cause = write_best(weights, path);
          if (cause.empty()) {
            saved.file = path;
          } else {
            weights.keep(path);
            keep_best({*found, std::move(weights), std::move(cause)});
          }
        },
        metadata_of(*found));
  } else if (best_left_) {
    best_left_->cause = write_best(best_left_->weights, path);
    if (best_left_->cause.empty()) {
      saved.file = path;
      best_left_.reset();
    }
  }
  saved.waits = best_left_.has_value();
  return saved;
}

// What a run that goes on behind a checkpoint finds as its best weights are those that the checkpoint knows, or those that come
// again. Others are set aside, and the file holds again what the checkpoint knows; else the next figure is the best so far.
void Session::mend_best_weights(CheckpointPlace& place, const std::filesystem::path& run) {
  if (!pipeline_.best) return;
  const std::string figure = pipeline_.best->text(), path = (run / kBestWeights).string();
  RunState& state = resumed_->checkpoint.state;
  const auto known = best_weights_of(state, figure), there = best_weights_in(path);
  std::error_code ignored;
  const bool says_nothing = !there && std::filesystem::exists(path, ignored);
  if (says_nothing || belongs(there, known, leaves_a_course())) return;
  std::string text = fmt::format("'{}' was not there", path);
  if (there) {
    try {
      text = fmt::format("the best weights of a course that the run has left, {} = {} after step {}, are in '{}' now",
                         there->figure, there->value, there->step, set_aside(path, *there).string());
    } catch (const Error& error) {
      return observers_.warn(fmt::format("'{}' holds the best weights of a course that the run has left, after step {}: {}", path,
                                         there->step, error.what()));
    }
  }
  std::string back = known ? put_best_back(place, path, *known) : std::string();
  if (back.empty()) {
    back = known ? fmt::format("no checkpoint has the weights after step {}, and the next figure is the best so far", known->step)
                 : "the next figure is the best so far";
    if (known) state.watched[best_key(figure)] = {.best = {}, .best_step = 0, .passes = state.watched[best_key(figure)].passes};
  }
  observers_.warn(fmt::format("{}; {}", text, back));
}

// Returns what to say of it; "": these weights are nowhere.
std::string Session::put_best_back(CheckpointPlace& place, const std::string& path, const BestWeights& known) {
  const std::string done = fmt::format("'{}' holds the weights after step {} again", path, known.step);
  if (take_back(path, known)) return done;
  const RunState::Watched& watched = resumed_->checkpoint.state.watched.at(best_key(known.figure));
  std::optional<Weights> found;
  if (known.step == resumed_->checkpoint.state.step) {
    found = evaluated_weights(resumed_->checkpoint);
  } else if (const auto other = best_checkpoint(place, best_key(known.figure), watched)) {
    found = evaluated_weights(other->checkpoint);
  }
  if (!found) return {};
  const auto values = std::make_shared<const Weights>(std::move(*found));
  std::map<std::string, std::string> metadata = weights_metadata();
  metadata.merge(metadata_of(known));
  WeightsFile weights(
      *pipeline_.network, [values](int parameter) { return (*values)[static_cast<std::size_t>(parameter)]; },
      std::move(metadata));
  std::string cause = write_best(weights, path);
  if (cause.empty()) return done;
  keep_best({known, std::move(weights), std::move(cause)});
  return fmt::format("the weights after step {} are to be put there", known.step);
}

// Of weights that the run's folder did not take: in the folder of --rescue, where there is one.
void Session::rescue_weights(const WeightsFile& weights, const std::string& name, const std::string& what,
                             const std::string& cause) {
  not_saved_ += fmt::format("{}{}: {}", not_saved_.empty() ? "" : "; ", what, cause);
  if (options_.rescue.empty()) return;
  const std::string instead = (rescue_folder(log_->folder()) / name).string();
  try {
    weights.write(instead);
    not_saved_ += fmt::format("; they are in '{}' instead", instead);
  } catch (const Error& error) {
    not_saved_ += fmt::format("; --rescue: {}", error.what());
  }
}

// As the run's own folder is named.
std::filesystem::path Session::rescue_folder(const std::filesystem::path& run) const {
  return std::filesystem::path(options_.rescue) / place_name(run);
}

// The weights and the last checkpoint, each where it can be. The run fails when its own folder does not take one of them.
void Session::save_results(RunResult& result) {
  with_weights([&](const WeightsFile& weights) {
    const std::string file = (log_->folder() / kLastWeights).string();
    try {
      write_finite(weights, file);
      result.weights_file = file;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::storage) throw;
      rescue_weights(weights, kLastWeights, "the weights are not written", error.what());
    }
  });
  if (best_left_) {
    const std::uint64_t step = best_left_->best.step;
    if (const std::string file = save_best({}).file; !file.empty()) {
      requests_.honour({.kind = RequestKind::save, .by = StopRules::kBest, .text = {}}, step, file);
    } else {
      rescue_weights(best_left_->weights, kBestWeights, fmt::format("the best weights, after step {}, are not written", step),
                     best_left_->cause);
    }
  }
  try {
    if (checkpoints_) checkpoints_->finish();
  } catch (const Error& error) {
    not_saved_.append(not_saved_.empty() ? "" : "; ").append(error.what());
    if (!result.weights_file.empty()) not_saved_ += fmt::format("; the weights are in '{}'", result.weights_file);
    rescued_ = checkpoints_->rescued();
  }
  if (!not_saved_.empty()) fail(ErrorKind::run, "{}", not_saved_);
  if (checkpoints_ != nullptr && result.step > 0) result.go_on = command_with(options_.command, "--resume", log_->folder());
}

}  // namespace millrace
