#include "run/best_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "millrace/error.h"
#include "run/checkpoint_format.h"

namespace millrace {
namespace {

constexpr const char* kBestKey = "checkpoint.best ";

// What a checkpoint knows of this figure; nothing: it knows none, or it cannot be used.
std::optional<RunState::Watched> watched_in(CheckpointPlace& checkpoints, const std::string& name, const std::string& key) {
  try {
    const RunState state = checkpoints.read(name).state;
    const auto found = state.watched.find(key);
    if (found != state.watched.end()) return found->second;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;  // a storage that does not answer says nothing about it
  }
  return std::nullopt;
}

// False: the checkpoint with this figure is not there, or damaged.
bool point_again(CheckpointPlace& checkpoints, const std::vector<std::string>& names, const std::string& key,
                 const RunState::Watched& best) {
  for (const std::string& name : names) {
    if (step_of_checkpoint(name) != best.best_step) continue;
    const auto there = watched_in(checkpoints, name, key);
    if (!there || there->best != best.best) continue;
    checkpoints.point_to("best", name);
    return true;
  }
  return false;
}

}  // namespace

void point_to_used(CheckpointPlace& checkpoints, const FoundCheckpoint& used) {
  const RunState& state = used.checkpoint.state;
  std::string name = used.path.filename().string();
  if (!is_checkpoint_name(name)) name = checkpoint_name(state.step);  // it lay under another name while it was replaced
  const auto point_to = [&](const char* pointer) {
    if (checkpoints.pointed_to(pointer) != name) checkpoints.point_to(pointer, name);
  };
  point_to("latest");
  for (const auto& [key, watched] : state.watched) {
    if (key.starts_with(kBestKey) && watched.best && watched.best_step == state.step) point_to("best");
  }
}

void mend_best(CheckpointPlace& checkpoints, RunState& state, const std::function<void(std::string)>& warn) {
  for (auto& [key, watched] : state.watched) {
    if (!key.starts_with(kBestKey) || !watched.best || watched.best_step == state.step) continue;
    const std::vector<std::string> names = checkpoints.names();
    const std::string name = checkpoints.pointed_to("best");
    // A later one is of a course that the run has left, or comes again.
    const bool is_there = std::find(names.begin(), names.end(), name) != names.end() && step_of_checkpoint(name) <= state.step;
    if (is_there && step_of_checkpoint(name) >= watched.best_step) continue;
    if (point_again(checkpoints, names, key, watched)) continue;
    const auto older = is_there ? watched_in(checkpoints, name, key) : std::nullopt;
    warn(fmt::format("the best checkpoint, after step {}, is not there or damaged: {}", watched.best_step,
                     older ? fmt::format("'{}' is the best so far", name) : "the next figure is the best so far"));
    const std::uint64_t passes = watched.passes;
    watched = older.value_or(RunState::Watched{});
    watched.passes = passes;
  }
}

}  // namespace millrace
