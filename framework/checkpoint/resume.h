// Which checkpoint a run resumes from. What was asked for and what lies where are values; the choice is a function of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/run_places.h"
#include "config/plan.h"
#include "millrace/util/group.h"

namespace millrace {

// What a run was asked that bears on it.
struct ResumeOptions {
  // --resume: a run's folder, or a checkpoint in it; "": the newest run. None: as [checkpoint] resume says.
  std::optional<std::string> run = {};
  bool saves_checkpoints = false;  // PreparedRun::saves_checkpoints()
  bool replays = false;            // --explain-nan: a run without a checkpoint is replayed from its first step
  bool only_checks = false;        // --check
  bool begins_elsewhere = false;   // --from or --weights
  bool allows_changes = false;     // --allow-change
};

// A run that is to resume.
struct ResumeRequest {
  std::string asked_by;       // "--resume", for messages
  bool is_explicit = false;   // a user asked for it: without a checkpoint no run begins
  bool replays = false;       // nothing is lost where the run is replayed from its first step
  std::filesystem::path run;  // that was named; "": the newest one
  std::string checkpoint;     // that was named, "step-000001200"; "": the newest one
};
// Nothing: the run begins. Throws Error(usage) for options that contradict the file or each other.
std::optional<ResumeRequest> resume_request(const Pipeline& pipeline, const ResumeOptions& options);

// One run, and what its checkpoints are good for.
struct RunCandidate {
  std::filesystem::path run;
  std::string checkpoint = {};             // to resume from; "": none can be used
  std::vector<std::string> unusable = {};  // those that would come first, each with what is wrong with it
};

// What the places hold that a request leads to.
struct ResumePlaces {
  std::filesystem::path runs;            // the folder of all runs of this name
  std::string checkpoint_folder;         // as [checkpoint] folder says it
  bool has_runs = false;                 // in `runs`
  std::vector<RunCandidate> candidates;  // the newest run first, up to the first one with a checkpoint that can be used
};

struct ResumeChoice {
  std::optional<std::size_t> candidate;  // nothing: a new run begins
  std::vector<std::string> warnings;
};
// A run that was killed before its first checkpoint hides no earlier one. Throws Error(usage) where no checkpoint can be used and
// a user asked for one; and where all are damaged, since a new run would lose in silence what was done.
ResumeChoice choose_resume(const ResumeRequest& request, const ResumePlaces& places);

// The checkpoint that a run resumes from. Its tensors may have been moved away.
struct ResumePoint : FoundCheckpoint {
  std::filesystem::path run;     // the folder; known to rank 0
  std::string latest;            // what `latest` named when this was chosen; known to rank 0
  bool was_named = false;        // by a user
  bool rewinds_history = false;  // later steps of the run are abandoned: a user named an older checkpoint, or on_nan rolls back
};
// Looks into the places and chooses. `rolls_back`: the numbers after the checkpoint went wrong. Nothing: a new run begins.
// Throws what choose_resume() throws, and Error(usage) for a folder that is no run.
std::optional<ResumePoint> find_resume_point(const ResumeRequest& request, const RunPlaces& places, bool rolls_back,
                                             const std::function<void(std::string)>& warn);
// All processes of a run read the checkpoint that rank 0 has chosen, or get it from rank 0 where they have no whole copy. All
// call it; `failed`: rank 0 has thrown.
void share_resume_point(std::optional<ResumePoint>& point, bool failed, const RunPlaces& places, Group& group);

}  // namespace millrace
