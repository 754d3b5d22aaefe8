// Where a session resumes, what has to be the same then, and what its checkpoints say of it.
#include <fmt/format.h>

#include <utility>

#include "config/document.h"
#include "millrace/error.h"
#include "run/session.h"
#include "run/verify.h"

namespace millrace {

bool Session::has_checkpoints() const {
  const GraphPlan& main = options_.graph.empty() ? pipeline_.graphs.front() : *pipeline_.graph(options_.graph);
  return pipeline_.checkpoint.wanted && pipeline_.network && trains(main) && !options_.only_main;
}

// Before anything else is looked at. Rank 0 chooses for all processes.
void Session::find_checkpoint() {
  const std::optional<ResumeRequest> request = resume_request(
      pipeline_, {.run = options_.resume,
                  .saves_checkpoints = has_checkpoints(),
                  .replays = options_.replays,
                  .only_checks = options_.only_check,
                  .begins_elsewhere = !options_.weights.empty() || options_.from.epoch > 0 || options_.from.step > 0,
                  .allows_changes = !options_.allow_change.empty()});
  if (has_checkpoints()) places_.require_checkpoint_folder();
  if (!request) return;
  doing("reading the checkpoint");
  bool failed = true;
  const auto share = [&] {
    if (options_.group != nullptr) share_resume_point(resumed_, failed, places_, *options_.group);
  };
  try {
    if (is_first()) {
      resumed_ = find_resume_point(*request, places_, options_.resumed_rate_factor.has_value(),
                                   [this](std::string text) { observers_.warn(std::move(text)); });
    }
    failed = false;
  } catch (...) {
    share();
    throw;
  }
  share();
  if (!resumed_) return;
  RunState& state = resumed_->checkpoint.state;
  if (options_.resumed_rate_factor) state.rate_factor = *options_.resumed_rate_factor;
  options_.from = {state.epoch, state.step_of_epoch};
}

// The step of the epoch with which a run resumes whose batches had another size; nothing: they had not. As many samples are done:
// a batch that is done in part is made again. Larger ones may leave none to do.
std::optional<std::uint64_t> Session::step_with_other_batches() {
  if (!resumed_) return std::nullopt;
  const std::uint64_t was = resumed_->checkpoint.state.batch_size, is = builds_.front()->batch().size;
  if (was == 0 || was == is) return std::nullopt;
  const std::uint64_t samples = options_.from.step * was, again = samples % is, an_epoch = builds_.front()->steps_per_epoch();
  if (samples / is >= an_epoch) return an_epoch;
  if (again > 0 && is_first()) {
    observers_.warn(
        fmt::format("{}: batches hold {} samples now, and {} before: {} samples of epoch {} are trained on a second time",
                    pipeline_.title(), is, was, again, options_.from.epoch + 1));
  }
  return samples / is;
}

std::filesystem::path Session::run_folder() const {
  if (pipeline_.run.folder.empty() || options_.only_main || !is_first()) return {};
  if (!resumed_) return make_run_folder(pipeline_.run.folder, pipeline_.run.name);
  std::error_code error;
  std::filesystem::create_directories(resumed_->run, error);  // it may be gone, where checkpoints lie elsewhere
  if (error) fail(ErrorKind::usage, "the run's folder '{}' cannot be made: {}", resumed_->run.string(), error.message());
  return resumed_->run;
}

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

SavedStages Session::saved_stages() const {
  const GraphBuild& main = *builds_.front();
  SavedStages stages;
  for (std::size_t s = 0; s < main.stages().size(); ++s) stages.push_back({main.plan().stages[s].name, main.stages()[s]});
  return stages;
}

RunRecord Session::record() const {
  return {.pipeline = to_toml(resolved()),
          .network = network_text_,
          .data = data(),
          .backend = devices_.devices.front()->info().backend,
          .precision = to_string(precision_),
          .replicas = devices_.all_replicas};
}

void Session::check_changes() const {
  require_allowed(compare_with_checkpoint(*resumed_, record(), pipeline_), options_.allow_change, pipeline_.title(),
                  resumed_->path.string());
}

// Before the first start of a graph.
void Session::watch_gates() {
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    Graph::Agree agree;  // null: this process is alone
    if (!agreements_.empty()) {
      agree = [agreement = agreements_[g].get()](Graph::StepReady ready, auto answer) {
        agreement->step_is_ready(std::move(ready), std::move(answer));
      };
    }
    if (g == 0 && checkpointer_) agree = checkpointer_->watch(std::move(agree));
    graphs_[g]->on_step_ready(std::move(agree));
  }
}

std::string Session::verify(std::uint64_t most) {
  if (!resumed_) return {};
  const auto read = [this](std::uint64_t first, std::uint64_t last) {
    if (is_first()) log_->expect_folder(resumed_->run);  // stages that are opened here write there
    prepare();
    doing(fmt::format("reading the batches of steps {} to {} again", first + 1, last));
    log_->rehearse(true);
    BatchHashList hashes = read_batches(*graphs_.front(), first, last);
    log_->rehearse(false);
    return hashes;
  };
  return verify_batches(*resumed_, first_step_, most, read, options_.group);
}

}  // namespace millrace
