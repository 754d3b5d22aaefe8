#include "checkpoint/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/best.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/replica_values.h"
#include "checkpoint/verify.h"
#include "millrace/error.h"
#include "weight_files/weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_first(const ReplicaView& view) { return view.group == nullptr || view.group->rank() == 0; }

void warn_of_changes(const FoundCheckpoint& from, const ReplicaView& view, const Versions& versions,
                     const std::function<void(std::string text)>& warn) {
  const SavedState& state = from.checkpoint.state;
  if (const std::string changes = version_changes(state.versions, versions); !changes.empty()) {
    warn(fmt::format("the checkpoint '{}' was written by other versions, so bits may differ from here on: {}", from.path.string(),
                     changes));
  }
  if (state.replicas == view.all_replicas) return;
  warn(
      fmt::format("the checkpoint '{}' is of {} replica{}, but {} resume: every step keeps its samples; sums and statistics over "
                  "replicas differ from here on, and so do the bits of the weights",
                  from.path.string(), state.replicas, state.replicas == 1 ? "" : "s", view.all_replicas));
}

}  // namespace

void restore_run(FoundCheckpoint& from, const ReplicaView& view, const SavedStages& stages, const RestoredInto& into,
                 const std::function<void(std::string text)>& warn) {
  if (is_first(view)) warn_of_changes(from, view, into.versions, warn);
  restore_values(view, from, into.pipeline);
  from.checkpoint.tensors = {};
  const std::map<std::string, std::string>& saved = from.checkpoint.state.stages;
  for (const SavedStage& stage : stages) {
    const auto found = saved.find(stage.name);
    if (found == saved.end()) continue;
    for (const auto& instance : stage.instances) instance->restore(found->second);
  }
}

Checkpointer::Checkpointer(Run run, const ReplicaView& replicas, WeightsWriter& weights, Listener listener)
    : run_(std::move(run)), replicas_(replicas), weights_(weights), listener_(std::move(listener)) {}

Checkpointer::~Checkpointer() = default;

void Checkpointer::know(const fs::path& path) {
  const std::lock_guard lock(known_mutex_);
  known_ = path.string();
}

void Checkpointer::open(const fs::path& run, ResumePoint* from, const fs::path& rescue) {
  folder_ = run;
  if (from != nullptr) know(from->path);
  const CheckpointPlan& plan = run_.pipeline.checkpoint;
  RetentionPeriod period = [every = plan.keep_every, steps = run_.steps_per_epoch](std::uint64_t step) {
    return every.times(step, steps);
  };
  std::function<void(const Checkpoint*)> attempted;
  if (run_.pipeline.best) attempted = [this](const Checkpoint* best) { export_best(best); };
  writer_ = std::make_unique<CheckpointWriter>(CheckpointWriter::Setting{.folder = run_.places.checkpoint_folder(run),
                                                                         .storage = run_.places.storage(),
                                                                         .lock = run,
                                                                         .resumes = from != nullptr,
                                                                         .keep = plan.keep,
                                                                         .keep_every = std::move(period),
                                                                         .rescue = rescue,
                                                                         .seconds = plan.seconds,
                                                                         .sync = listener_.sync,
                                                                         .attempted = std::move(attempted),
                                                                         .report =
                                                                             [this](CheckpointEvent event) {
                                                                               know(event.path);
                                                                               event.by_default =
                                                                                   run_.pipeline.checkpoint.by_default;
                                                                               listener_.report(std::move(event));
                                                                             },
                                                                         .warn = listener_.warn});
  if (from != nullptr) return take_over(*from);
  try {
    run_.places.checkpoints(run)->point_to(RunPlaces::kNumber, std::to_string(run_.places.next_number()));
  } catch (const Error& error) {
    listener_.warn(fmt::format(
        "it could not be recorded that this run is newer than others of its name, so --resume may choose one of those: {}",
        error.what()));
  }
}

// Another process may have resumed the run between the choice of the checkpoint and the lock, or at any time without locks.
void Checkpointer::take_over(ResumePoint& from) {
  const auto place = run_.places.checkpoints(folder_);
  const std::string latest = place->pointed_to("latest");
  if (latest != from.latest) {
    fail(ErrorKind::run,
         "another process has resumed the run in '{}' since this one chose '{}': the newest checkpoint is '{}' now; start again",
         folder_.string(), from.path.string(), latest);
  }
  remove_unfinished(folder_, from.path);
  place->remove_unfinished(from.path.filename().string());
  point_to_used(*place, from, from.was_named, listener_.warn);
  const std::optional<FigurePlan>& figure = best_figure(run_.pipeline);
  const auto best = figure ? mend_best(*place, from, figure->text(), weights_.best_there(), listener_.warn) : nullptr;
  if (!run_.pipeline.best) return weights_.resume_best("", std::nullopt, std::nullopt, from.rewinds_history);
  weights_.prepare_export();
  std::optional<WeightsFile::Fetch> values;
  if (best) values = evaluated_values(replicas_, *best);
  weights_.resume_best(figure->text(), best_of(from.checkpoint.state, figure->text()), values, from.rewinds_history);
}

// Runs on the writing thread.
void Checkpointer::export_best(const Checkpoint* best) {
  if (best == nullptr) return weights_.retry_best();
  const std::optional<Best> found = best_of(best->state, run_.pipeline.best->text());
  const auto values = evaluated_values(replicas_, *best);
  if (found && values) weights_.export_best(*found, *values);
}

void Checkpointer::restore(FoundCheckpoint& from, std::uint64_t first_step) {
  restore_run(from, replicas_, run_.stages, {run_.pipeline.title(), run_.record.versions}, listener_.warn);
  const SavedState& state = from.checkpoint.state;
  if (state.step != first_step) return;       // the length of an epoch differs
  const bool has_sums = is_first(replicas_);  // the other processes add to them
  batches_.restore(first_step, has_sums ? state.batches : BatchHashList(state.batches.size()));
}

Graph::Agree Checkpointer::watch(Graph::Agree next) {
  return [this, next = std::move(next)](Graph::StepReady ready, auto answer) {
    if (ready.batch) batches_.add(ready.step, hash_of(*ready.batch));
    ready.batch = nullptr;
    if (next) return next(std::move(ready), std::move(answer));
    answer(Graph::StepAgreed::alone(ready));
  };
}

void Checkpointer::save(SavedState state, bool is_best, Clock::time_point since) {
  if (writer_) writer_->wait();  // --check counts the memory of one checkpoint
  for (const auto& replica : replicas_.replicas) replica->finish();
  for (const SavedStage& stage : run_.stages) {
    std::string saved = stage.instances.front()->save();
    if (!saved.empty()) state.stages[stage.name] = std::move(saved);
  }
  state.metadata = plans_of(replicas_.replicas, replicas_.devices, replicas_.first_replica);
  if (replicas_.group != nullptr) state.metadata = plans_of_all(state.metadata, *replicas_.group);
  state.metadata.insert(run_.metadata.begin(), run_.metadata.end());
  state.backend = run_.record.backend;
  state.precision = run_.record.precision;
  state.versions = run_.record.versions;
  state.network = run_.record.network;
  state.data = run_.record.data;
  state.replicas = run_.record.replicas;
  state.batches = sums_of_processes(batches_.last(state.step), replicas_.group);
  std::vector<NamedTensor> tensors;
  CheckpointWriter::Fetch fetch = capture_values(replicas_, tensors);
  if (!writer_) return;
  if (is_best) weights_.prepare_export();
  writer_->write({std::move(state), std::move(tensors), run_.record.pipeline}, is_best, since, std::move(fetch));
}

void Checkpointer::finish() {
  if (!writer_) return;
  try {
    writer_->finish();
  } catch (const Error&) {
    rescued_ = writer_->rescued();
    throw;
  }
}

std::string Checkpointer::stop() {
  const std::string lost = writer_ ? writer_->finish_best() : std::string();
  writer_ = nullptr;
  return lost;
}

std::string Checkpointer::newest() const {
  if (folder_.empty()) return {};
  try {
    const std::string name = run_.places.checkpoints(folder_)->pointed_to("latest");
    return name.empty() ? std::string() : (run_.places.checkpoint_folder(folder_) / name).string();
  } catch (const Error&) {  // storage is unreachable; this only adds detail to another error
    const std::lock_guard lock(known_mutex_);
    return known_;
  }
}

std::string newest_words(const Checkpointer* checkpointer) {
  const std::string path = checkpointer == nullptr ? std::string() : checkpointer->newest();
  return path.empty() ? "the run has no checkpoint" : fmt::format("the newest checkpoint is '{}'", path);
}

std::string Checkpointer::point_before(std::uint64_t step) {
  try {
    const auto place = run_.places.checkpoints(folder_);
    const std::vector<std::string> names = place->names();
    const auto older = std::ranges::find_if(names, [&](const std::string& name) { return step_of_checkpoint(name) < step; });
    if (older == names.end()) return newest();
    place->point_to("latest", *older);
    return (run_.places.checkpoint_folder(folder_) / *older).string();
  } catch (const Error&) {  // as in newest()
    return newest();
  }
}

}  // namespace millrace
