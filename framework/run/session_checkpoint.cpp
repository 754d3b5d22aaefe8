// A session's checkpoints: what is written into one, what has to be the same, and how it comes back.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "config/difference.h"
#include "config/document.h"
#include "millrace/error.h"
#include "run/best_checkpoint.h"
#include "run/changes.h"
#include "run/session.h"
#include "run/versions.h"
#include "run/weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// "conv1.weight/momentum"; of statistics, which differ between replicas, "bn1.running_mean/value/0".
std::string tensor_name(const Parameter& parameter, const std::string& state, std::size_t replica) {
  return parameter.statistic ? fmt::format("{}/{}/{}", parameter.name, state, replica)
                             : fmt::format("{}/{}", parameter.name, state);
}

// Gradients are made anew in every step.
bool is_saved(const Replica& replica, const std::string& state, int parameter) {
  return state != kGradient && replica.has_state(state, parameter);
}

}  // namespace

// As it is now: a checkpoint says later what the run began with.
void Session::read_network_text() {
  if (!has_checkpoints() || pipeline_.network_params.use.empty()) return;
  Diagnostics ignored;  // it was read before
  if (const auto document = read_document(pipeline_.network_params.use, {}, ignored)) network_text_ = to_toml(*document);
}

std::map<std::string, RunState::Data> Session::data() const {
  std::map<std::string, RunState::Data> all;
  for (const auto& build : builds_) {
    if (build->source() == nullptr) continue;
    all[fmt::format("{}.{}", build->plan().name, build->source_plan().name)] = {build->samples(), build->classes(),
                                                                                build->class_counts(), build->listing_hash()};
  }
  return all;
}

void Session::check_changes() const {
  const RunState& state = resumed_->checkpoint.state;
  Diagnostics errors;
  const auto then = parse_toml(resumed_->checkpoint.pipeline, (resumed_->path / "pipeline.toml").string(), errors);
  const auto now = parse_toml(to_toml(resolved()), pipeline_.file, errors);
  errors.throw_if_any();
  std::set<std::string> left_out = keys_that_may_change(pipeline_);
  left_out.insert({"run.devices", "run.precision"});  // compared below as they were chosen
  std::vector<Difference> found = differences(*then, *now, left_out);
  // What the environment says is compared too, since older checkpoints hold its texts; it is not said.
  const std::vector<Difference> meant = differences(with_environment(*then), with_environment(*now), left_out);
  std::erase_if(found,
                [&](const Difference& each) { return std::ranges::find(meant, each.key, &Difference::key) == meant.end(); });
  const auto compare = [&](const char* key, const std::string& before, const std::string& after) {
    if (before != after) found.push_back({key, before, after});
  };
  std::vector<std::string> keys;
  for (const Value* document : {&*then, &*now}) add_keys("", *document, keys);
  if (!state.network.empty()) {                                                              // older checkpoints do not hold it
    std::erase_if(found, [](const Difference& each) { return each.key == "network.use"; });  // where its content lies
    const auto network_then = parse_toml(state.network, "the checkpoint's network", errors);
    const auto network_now = parse_toml(network_text_, pipeline_.network_params.use, errors);
    errors.throw_if_any();
    std::ranges::move(document_differences("network.use", *network_then, *network_now), std::back_inserter(found));
    for (const Value* document : {&*network_then, &*network_now}) add_keys("network.use", *document, keys);
  }
  std::ranges::move(data_differences(state.data, data(), places_of_sources(pipeline_)), std::back_inserter(found));
  compare("run.precision", state.precision, to_string(precision_));
  compare("run.devices", fmt::format("{}*{}", state.backend, state.replicas),
          fmt::format("{}*{}", devices_.devices.front()->info().backend, devices_.all_replicas));
  add_possible_keys(pipeline_, keys);
  for (const Difference& each : found) keys.push_back(each.key);
  require_keys(options_.allow_change, keys);
  std::string text;
  for (const Difference& each : found) {
    if (is_allowed(each.key, options_.allow_change)) continue;
    const auto said = [](const std::string& value) { return value.empty() ? std::string("not there") : value; };
    text += fmt::format("\n  {} was {}, is {}", each.key, said(each.then), said(each.now));
  }
  if (text.empty()) return;
  fail(ErrorKind::usage, "{}: the checkpoint '{}' was made by another pipeline; --allow-change KEY allows a change:{}",
       pipeline_.title(), resumed_->path.string(), text);
}

std::size_t Session::checkpoint_bytes(const Replicas& replicas) const {
  std::size_t bytes = 0;
  std::vector<std::string> states = replicas.front()->states();
  for (const std::string& copy : copies_) {
    if (std::ranges::find(states, copy) == states.end()) states.push_back(copy);
  }
  for (int p = 0; const Parameter& parameter : pipeline_.network->parameters) {
    std::int64_t numbers = 0;
    for (const std::string& state : states) {
      if (is_saved(*replicas.front(), state, p)) numbers += replicas.front()->state_shape(state, p)->elements();
    }
    ++p;
    bytes += static_cast<std::size_t>(numbers) * sizeof(float) * (parameter.statistic ? devices_.all_replicas : 1);
  }
  return bytes;
}

void Session::know_checkpoint(const fs::path& path) {
  const std::lock_guard lock(known_mutex_);
  known_checkpoint_ = path.string();
}

void Session::make_checkpoints(const fs::path& run) {
  if (!has_checkpoints() || !is_first()) return;
  if (resumed_) know_checkpoint(resumed_->path);
  Stretch stretch = [every = pipeline_.checkpoint.keep_every, steps = builds_.front()->steps_per_epoch()](std::uint64_t step) {
    return every.times(step, steps);
  };
  checkpoints_ = std::make_unique<Checkpoints>(
      Checkpoints::Setting{.folder = checkpoint_folder_of(run),
                           .storage = checkpoint_storage(),
                           .lock = run,
                           .goes_on = resumed_.has_value(),
                           .keep = pipeline_.checkpoint.keep,
                           .keep_every = std::move(stretch),
                           .rescue = options_.rescue.empty() ? fs::path() : rescue_folder(run) / "checkpoints",
                           .seconds = pipeline_.checkpoint.seconds,
                           .sync = [this] { observers_.sync(); },
                           .tell =
                               [this](CheckpointEvent event) {
                                 know_checkpoint(event.path);
                                 observers_.tell(std::move(event));
                               },
                           .warn = [this](std::string text) { observers_.warn(std::move(text)); }});
  if (resumed_) take_over(run);
}

// The run's files become those of a run that goes on behind this checkpoint. Between its choice and the lock another process may
// have gone on with the run, and where there are no locks it still may.
void Session::take_over(const fs::path& run) {
  const auto place = checkpoint_place_of(run);
  const std::string latest = place->pointed_to("latest");
  if (latest != latest_then_) {
    fail(ErrorKind::run,
         "another process has gone on with the run in '{}' since this one chose '{}': the newest checkpoint is '{}' now; start "
         "again",
         run.string(), resumed_->path.string(), latest);
  }
  const auto warn = [this](std::string text) { observers_.warn(std::move(text)); };
  remove_unfinished(run, resumed_->path);
  place->remove_unfinished(resumed_->path.filename().string());
  mend_best_weights(*place, run);  // while `latest` still tells whether a course is left
  point_to_used(*place, *resumed_, names_checkpoint(), warn);
  mend_best(*place, resumed_->checkpoint.state, warn);
}

// Of all replicas of all processes.
std::vector<std::vector<float>> Session::copies_of(const std::string& state, int parameter) {
  std::vector<std::vector<float>> copies;
  for (const auto& replica : replicas_) copies.push_back(replica->read(state, parameter));
  return options_.group == nullptr ? copies : copies_of_all(copies, *options_.group);
}

// What is the same in all replicas is copied from the first one, and fetched while training goes on.
Checkpoints::Fetch Session::capture(std::vector<NamedTensor>& tensors) {
  std::vector<StateOf> asked;
  std::vector<std::size_t> places;  // of these among the tensors
  const std::vector<std::string> states = replicas_.front()->states();
  for (int p = 0; const Parameter& parameter : pipeline_.network->parameters) {
    for (const std::string& state : states) {
      if (!is_saved(*replicas_.front(), state, p)) continue;
      std::vector<std::vector<float>> copies;
      if (parameter.statistic) {
        copies = copies_of(state, p);
      } else if (is_first()) {
        asked.push_back({state, p});
        places.push_back(tensors.size());
        copies.emplace_back();
      }
      for (std::size_t r = 0; r < copies.size(); ++r) {
        tensors.push_back({tensor_name(parameter, state, r), *replicas_.front()->state_shape(state, p), std::move(copies[r])});
      }
    }
    ++p;
  }
  if (asked.empty()) return {};
  const std::shared_ptr<Snapshot> snapshot = replicas_.front()->capture(asked);
  return [snapshot, places](std::vector<NamedTensor>& all) {
    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]].values = snapshot->take(i);
  };
}

void Session::checkpoint(RunState state, bool best, Checkpoints::Clock::time_point since) {
  if (checkpoints_) checkpoints_->wait();  // the memory of one is what --check counts
  for (const auto& replica : replicas_) replica->finish();
  const GraphBuild& main = *builds_.front();
  for (std::size_t s = 0; s < main.stages().size(); ++s) {
    std::string saved = main.stages()[s].front()->save();
    if (!saved.empty()) state.stages[main.plan().stages[s].name] = std::move(saved);
  }
  state.metadata = plans_of(replicas_, devices_.devices, devices_.first_replica);
  if (options_.group != nullptr) state.metadata = plans_of_all(state.metadata, *options_.group);
  if (weights_from_.fresh.empty()) state.metadata.merge(metadata_of(classes_from(metadata_)));
  state.backend = devices_.devices.front()->info().backend;
  state.precision = to_string(precision_);
  state.versions = versions_of(devices_.devices);
  state.network = network_text_;
  state.data = data();
  state.replicas = devices_.all_replicas;
  state.batches = last_batches(state.step);
  std::vector<NamedTensor> tensors;
  Checkpoints::Fetch fetch = capture(tensors);
  if (!checkpoints_) return;
  checkpoints_->write({std::move(state), std::move(tensors), to_toml(resolved())}, best, since, std::move(fetch));
}

// With another number of replicas, which --allow-change run.devices allows, statistics are dealt out again.
void Session::restore_replicas() {
  const Checkpoint& from = resumed_->checkpoint;
  if (const std::string changes = version_changes(from.state.versions, versions_of(devices_.devices)); !changes.empty()) {
    if (is_first()) {
      observers_.warn(fmt::format("the checkpoint '{}' was written on other terms, and bits may differ from here on: {}",
                                  resumed_->path.string(), changes));
    }
  }
  if (is_first() && from.state.replicas != devices_.all_replicas) {
    observers_.warn(fmt::format(
        "the checkpoint '{}' is of {} replica{}, and {} go on: every step keeps its samples; sums over replicas and their "
        "statistics differ from here on, and with them the bits of the weights",
        resumed_->path.string(), from.state.replicas, from.state.replicas == 1 ? "" : "s", devices_.all_replicas));
  }
  std::map<std::string, const NamedTensor*> tensors;
  for (const NamedTensor& tensor : from.tensors) tensors[tensor.name] = &tensor;
  std::vector<std::string> states = replicas_.front()->states();
  states.insert(states.end(), copies_.begin(), copies_.end());  // none has begun yet
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    const std::size_t saved_replica = (devices_.first_replica + r) % std::max<std::uint64_t>(from.state.replicas, 1);
    for (int p = 0; const Parameter& parameter : pipeline_.network->parameters) {
      for (const std::string& state : states) {
        if (!is_saved(*replicas_[r], state, p)) continue;
        const NamedTensor* tensor = saved_tensor(tensors, parameter, state, saved_replica);
        if (tensor != nullptr) replicas_[r]->write(state, p, tensor->values);
      }
      ++p;
    }
  }
  resumed_->checkpoint.tensors = {};
}

// Null for a copy that had not begun.
const NamedTensor* Session::saved_tensor(const std::map<std::string, const NamedTensor*>& tensors, const Parameter& parameter,
                                         const std::string& state, std::size_t replica) const {
  const std::string name = tensor_name(parameter, state, replica);
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    if (std::ranges::find(copies_, state) != copies_.end()) return nullptr;
    fail(ErrorKind::usage, "{}: the checkpoint '{}' has no '{}', which this network has", pipeline_.title(),
         resumed_->path.string(), name);
  }
  const auto index = static_cast<int>(&parameter - pipeline_.network->parameters.data());
  const Shape shape = *replicas_.front()->state_shape(state, index);
  if (found->second->shape == shape) return found->second;
  fail(ErrorKind::usage, "{}: '{}' has shape {} in the checkpoint '{}', and {} in this network", pipeline_.title(), name,
       to_string(found->second->shape), resumed_->path.string(), to_string(shape));
}

// Those that other graphs saw at the checkpoint, as files of weights have them. Nothing: it is of another network.
std::optional<Weights> Session::evaluated_weights(const Checkpoint& from) const {
  std::map<std::string, const NamedTensor*> tensors;
  for (const NamedTensor& tensor : from.tensors) tensors[tensor.name] = &tensor;
  Weights weights;
  for (const Parameter& parameter : pipeline_.network->parameters) {
    std::vector<std::vector<float>> copies;
    const std::uint64_t count = parameter.statistic ? std::max<std::uint64_t>(from.state.replicas, 1) : 1;
    for (std::uint64_t r = 0; r < count; ++r) {
      auto found = tensors.find(tensor_name(parameter, evaluated_, r));  // "": there is none; one that has not begun is not saved
      if (found == tensors.end()) found = tensors.find(tensor_name(parameter, std::string(kValue), r));
      if (found == tensors.end() || found->second->shape != parameter.shape) return std::nullopt;
      copies.push_back(found->second->values);
    }
    const std::vector<double>& load = pipeline_.run.load;
    weights.push_back(count == 1 ? std::move(copies.front())
                                 : weighted_mean(copies, load.size() == count ? load : std::vector<double>()));
  }
  return weights;
}

void Session::restore_stages() {
  const GraphBuild& main = *builds_.front();
  const auto& saved = resumed_->checkpoint.state.stages;
  for (std::size_t s = 0; s < main.stages().size(); ++s) {
    const std::string& name = main.plan().stages[s].name;
    const auto found = saved.find(name);
    if (found == saved.end()) continue;
    for (const auto& stage : main.stages()[s]) stage->restore(found->second);
  }
}

}  // namespace millrace
