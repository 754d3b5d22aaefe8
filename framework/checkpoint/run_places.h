// Where the runs of a pipeline lie, and where their checkpoints do: in the run's own folder, or below [checkpoint] folder.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_place.h"
#include "checkpoint/run_folder.h"
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
  //
  // The order does not depend on clocks: each run writes a number beside its checkpoints that is larger than those of all runs
  // before it. Of equal ones, as of runs that began at the same moment, of copies and of earlier versions, which wrote none, the
  // run to which `latest` leads is the newest, and then the one with the later name.
  std::vector<std::filesystem::path> runs_with_checkpoints() const;
  static constexpr const char* kNumber = "number";  // the file beside the checkpoints
  std::uint64_t next_number() const;

 private:
  struct NumberedRun {
    std::uint64_t number = 0;
    bool is_latest = false;
    RunName name;
    friend auto operator<=>(const NumberedRun&, const NumberedRun&) = default;
  };
  std::vector<NumberedRun> numbered_runs() const;

  const Pipeline& pipeline_;
  const Registry& registry_;
};

}  // namespace millrace
