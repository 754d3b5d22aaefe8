// Where the runs of a pipeline and their checkpoints lie: in the run's own folder, or below [checkpoint] folder.
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

// Construction touches no file.
class RunPlaces {
 public:
  // Both outlive it.
  RunPlaces(const Pipeline& pipeline, const Registry& registry) : pipeline_(pipeline), registry_(registry) {}

  // Throws Error(usage) if run.name would lead out of run.folder.
  void require_name() const;
  // Throws if [checkpoint] folder is not writable, such as a missing bucket. Writes nothing.
  void require_checkpoint_folder() const;

  std::filesystem::path runs() const;  // the folder of all runs of this name
  // The runs' folder and the run's, "quickstart/2026-01-01T00-00-00"; for a run that lies elsewhere, its last two names.
  std::filesystem::path name_of(const std::filesystem::path& run) const;
  // Folder of the run's checkpoints; with a storage it is a URL.
  std::filesystem::path checkpoint_folder(const std::filesystem::path& run) const;
  std::unique_ptr<CheckpointPlace> checkpoints(const std::filesystem::path& run) const;
  Storage* storage() const;                                                  // for checkpoints; null if they lie in a folder
  const std::string& folder() const { return pipeline_.checkpoint.folder; }  // [checkpoint] folder; "": the run's own

  // Runs of this name with a place for checkpoints, the newest first. A run's name is its start time; other folders, such as a
  // copy "..._backup", are ignored. If checkpoints lie elsewhere, a run may have no folder on this machine.
  //
  // The order does not depend on clocks: each run writes a number next to its checkpoints, larger than those of all runs before
  // it. Numbers can be equal for runs that began together, copies, and runs of earlier versions, which wrote none. The run that
  // `latest` leads to is then the newest, followed by the one with the later name.
  std::vector<std::filesystem::path> runs_with_checkpoints() const;
  static constexpr const char* kNumber = "number";  // the file next to the checkpoints
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
