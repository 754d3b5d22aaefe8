#include "checkpoint/best.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_format.h"
#include "millrace/error.h"

namespace millrace {

namespace {

// Empty if the checkpoint is unusable.
std::optional<Checkpoint> read_whole(CheckpointPlace& place, const std::string& name) {
  try {
    return place.read(name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;  // the storage is unreachable, which does not show damage
    return std::nullopt;
  }
}

// The checkpoint named by the pointer, if it is whole and not later than `step`.
std::optional<FoundCheckpoint> pointed_to_by_best(CheckpointPlace& place, std::uint64_t step) {
  const std::vector<std::string> names = place.names();
  const std::string name = place.pointed_to("best");
  if (std::ranges::find(names, name) == names.end() || step_of_checkpoint(name) > step) return std::nullopt;
  auto checkpoint = read_whole(place, name);
  return checkpoint ? std::optional(FoundCheckpoint{name, std::move(*checkpoint)}) : std::nullopt;
}

void point_best_to(CheckpointPlace& place, const std::string& name) {
  if (place.pointed_to("best") != name) place.point_to("best", name);
}

// The checkpoint had another name while it was being replaced.
std::string name_of_used(const FoundCheckpoint& used) {
  std::string name = used.path.filename().string();
  return is_checkpoint_name(name) ? name : checkpoint_name(used.checkpoint.state.step);
}

}  // namespace

const std::optional<FigurePlan>& best_figure(const Pipeline& pipeline) {
  return pipeline.best ? pipeline.best : pipeline.checkpoint.best;
}

std::string best_key(const std::string& figure) { return "run.best " + figure; }

const SavedState::Watched* watched_best(const SavedState& state, const std::string& figure) {
  for (const std::string& key : {best_key(figure), "checkpoint.best " + figure}) {
    const auto found = state.watched.find(key);
    if (found != state.watched.end() && found->second.best) return &found->second;
  }
  return nullptr;
}

std::optional<Best> best_of(const SavedState& state, const std::string& figure) {
  const SavedState::Watched* const watched = watched_best(state, figure);
  return watched == nullptr ? std::nullopt : std::optional(Best{figure, watched->best_step, *watched->best});
}

void point_to_used(CheckpointPlace& place, const FoundCheckpoint& used, bool was_named,
                   const std::function<void(std::string)>& warn) {
  const std::string name = name_of_used(used);
  try {
    if (place.pointed_to("latest") != name) place.point_to("latest", name);
  } catch (const Error& error) {
    if (was_named) {
      fail(error.kind(),
           "'{}' cannot be made the run's newest checkpoint: {}; the run does not begin, since a later --resume would use "
           "another one. Free space, for example by deleting the later checkpoints, and start again",
           used.path.string(), error.what());
    }
    warn(fmt::format("the file 'latest' does not name '{}' yet: {}; the next checkpoint updates it", used.path.string(),
                     error.what()));
  }
}

std::optional<FoundCheckpoint> best_checkpoint(CheckpointPlace& place, const Best& best) {
  for (const std::string& name : place.names()) {
    if (step_of_checkpoint(name) != best.step) continue;
    auto checkpoint = read_whole(place, name);
    if (checkpoint && best_of(checkpoint->state, best.figure) == best) return FoundCheckpoint{name, std::move(*checkpoint)};
  }
  return std::nullopt;
}

std::shared_ptr<const Checkpoint> mend_best(CheckpointPlace& place, FoundCheckpoint& used, const std::string& figure,
                                            const std::optional<Best>& exported, const std::function<void(std::string)>& warn) {
  SavedState& state = used.checkpoint.state;
  const std::optional<Best> known = best_of(state, figure);
  if (!known) return nullptr;
  if (known->step == state.step) {
    point_best_to(place, name_of_used(used));
    return {std::shared_ptr<const Checkpoint>(), &used.checkpoint};
  }
  if (auto found = best_checkpoint(place, *known)) {
    point_best_to(place, found->path.string());
    return std::make_shared<const Checkpoint>(std::move(found->checkpoint));
  }
  if (exported == known) return nullptr;
  auto older = pointed_to_by_best(place, state.step);
  if (older && !best_of(older->checkpoint.state, figure)) older.reset();
  warn(fmt::format("the best checkpoint, after step {}, is missing or damaged: {}", known->step,
                   older ? fmt::format("'{}' is the best so far", older->path.string()) : "the next value counts as the best"));
  const std::uint64_t passes = watched_best(state, figure)->passes;
  SavedState::Watched mended = older ? *watched_best(older->checkpoint.state, figure) : SavedState::Watched{};
  mended.passes = passes;
  state.watched.erase("checkpoint.best " + figure);
  state.watched[best_key(figure)] = mended;
  return older ? std::make_shared<const Checkpoint>(std::move(older->checkpoint)) : nullptr;
}

}  // namespace millrace
