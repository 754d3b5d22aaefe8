// Where the runs of a pipeline lie, and where their checkpoints do: in the run's own folder, or below [checkpoint] folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_place.h"
#include "config/plan.h"
#include "millrace/plugin.h"

namespace millrace {

// Touches nothing until it is asked to.
class RunPlaces {
 public:
  // Both outlive it.
  RunPlaces(const Pipeline& pipeline, const Registry& registry) : pipeline_(pipeline), registry_(registry) {}

  // Throws Error(usage) where run.name would lead out of run.folder.
  void require_name() const;
  // Throws where nothing can be written below [checkpoint] folder, as in a bucket that is not there. Writes nothing.
  void require_checkpoint_folder() const;

  std::filesystem::path runs() const;  // the folder of all runs of this name
  // The folder of runs and that of a run, "quickstart/2026-01-01T00-00-00"; of a run that lies elsewhere, its last two names.
  std::filesystem::path name_of(const std::filesystem::path& run) const;
  // The run's checkpoints lie in it; with a storage it is a URL.
  std::filesystem::path checkpoint_folder(const std::filesystem::path& run) const;
  std::unique_ptr<CheckpointPlace> checkpoints(const std::filesystem::path& run) const;
  Storage* storage() const;                                                  // of checkpoints; null: they lie in a folder
  const std::string& folder() const { return pipeline_.checkpoint.folder; }  // as [checkpoint] says it; "": the run's own

  // Runs of this name that have a place for checkpoints, the newest first. A run is named by the time when it began; other
  // folders, such as a copy "..._backup", are a user's, and are none. Where checkpoints lie elsewhere, a run may have no folder
  // on this machine.
  std::vector<std::filesystem::path> runs_with_checkpoints() const;

 private:
  const Pipeline& pipeline_;
  const Registry& registry_;
};

}  // namespace millrace
