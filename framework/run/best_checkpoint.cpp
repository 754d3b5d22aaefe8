#include "run/best_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "run/checkpoint_format.h"

namespace millrace {
namespace {

constexpr const char* kBestKey = "checkpoint.best ";

// Nothing: it cannot be used.
std::optional<Checkpoint> read_whole(CheckpointPlace& checkpoints, const std::string& name) {
  try {
    return checkpoints.read(name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;  // a storage that does not answer says nothing about it
    return std::nullopt;
  }
}

// What a checkpoint knows of this figure.
std::optional<RunState::Watched> watched_in(const std::optional<Checkpoint>& checkpoint, const std::string& key) {
  if (!checkpoint) return std::nullopt;
  const auto found = checkpoint->state.watched.find(key);
  return found == checkpoint->state.watched.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void point_to_used(CheckpointPlace& checkpoints, const FoundCheckpoint& used, bool was_named,
                   const std::function<void(std::string)>& warn) {
  const RunState& state = used.checkpoint.state;
  std::string name = used.path.filename().string();
  if (!is_checkpoint_name(name)) name = checkpoint_name(state.step);  // it lay under another name while it was replaced
  try {
    if (checkpoints.pointed_to("latest") != name) checkpoints.point_to("latest", name);
  } catch (const Error& error) {
    if (was_named) {
      fail(error.kind(),
           "'{}' cannot be made the run's newest checkpoint: {}; the run does not begin, since a later --resume would go on "
           "behind another one. Make room for it, as by deleting the checkpoints that come later, and start again",
           used.path.string(), error.what());
    }
    warn(fmt::format("the file 'latest' does not name '{}' yet: {}; the next checkpoint moves it", used.path.string(),
                     error.what()));
  }
  for (const auto& [key, watched] : state.watched) {
    const bool is_best = key.starts_with(kBestKey) && watched.best && watched.best_step == state.step;
    if (is_best && checkpoints.pointed_to("best") != name) checkpoints.point_to("best", name);
  }
}

std::optional<FoundCheckpoint> best_checkpoint(CheckpointPlace& checkpoints, const std::string& key,
                                               const RunState::Watched& best) {
  for (const std::string& name : checkpoints.names()) {
    if (step_of_checkpoint(name) != best.best_step) continue;
    auto checkpoint = read_whole(checkpoints, name);
    const auto there = watched_in(checkpoint, key);
    if (there && there->best == best.best) return FoundCheckpoint{name, std::move(*checkpoint)};
  }
  return std::nullopt;
}

void mend_best(CheckpointPlace& checkpoints, RunState& state, const std::function<void(std::string)>& warn) {
  for (auto& [key, watched] : state.watched) {
    if (!key.starts_with(kBestKey) || !watched.best || watched.best_step == state.step) continue;
    const std::vector<std::string> names = checkpoints.names();
    const std::string name = checkpoints.pointed_to("best");
    // A later one is of a course that the run has left, or comes again.
    const bool is_there = std::find(names.begin(), names.end(), name) != names.end() && step_of_checkpoint(name) <= state.step;
    if (is_there && step_of_checkpoint(name) >= watched.best_step && read_whole(checkpoints, name)) continue;
    if (const auto found = best_checkpoint(checkpoints, key, watched)) {
      checkpoints.point_to("best", found->path.string());
      continue;
    }
    const auto older = is_there ? watched_in(read_whole(checkpoints, name), key) : std::nullopt;
    warn(fmt::format("the best checkpoint, after step {}, is not there or damaged: {}", watched.best_step,
                     older ? fmt::format("'{}' is the best so far", name) : "the next figure is the best so far"));
    const std::uint64_t passes = watched.passes;
    watched = older.value_or(RunState::Watched{});
    watched.passes = passes;
  }
}

}  // namespace millrace
