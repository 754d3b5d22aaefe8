// Which checkpoint a run resumes from. The request and the existing files are values; the choice is a function of them.
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

// Options of a run that affect the choice.
struct ResumeOptions {
  // --resume: a run's folder, or a checkpoint in it; "": the newest run. If unset, [checkpoint] resume applies.
  std::optional<std::string> run = {};
  bool saves_checkpoints = false;  // PreparedRun::saves_checkpoints()
  bool replays = false;            // --explain-nan: replays a run without a checkpoint from its first step
  bool only_checks = false;        // --check
  bool begins_elsewhere = false;   // --from or --weights
  bool allows_changes = false;     // --allow-change
};

// A request to resume.
struct ResumeRequest {
  std::string asked_by;       // "--resume", for messages
  bool is_explicit = false;   // requested by the user: a missing checkpoint is an error
  bool replays = false;       // no error, since the run is replayed from its first step
  std::filesystem::path run;  // named run; "": the newest one
  std::string checkpoint;     // named checkpoint, "step-000001200"; "": the newest one
};
// Empty if a new run begins. Throws Error(usage) for options that contradict the file or each other.
std::optional<ResumeRequest> resume_request(const Pipeline& pipeline, const ResumeOptions& options);

// A run, and whether its checkpoints are usable.
struct RunCandidate {
  std::filesystem::path run;
  std::string checkpoint = {};             // the one to resume from; "": none is usable
  std::vector<std::string> unusable = {};  // newer unusable ones, each with its fault
};

// The checkpoints in the places that a request names.
struct ResumePlaces {
  std::filesystem::path runs;            // the folder of all runs of this name
  std::string checkpoint_folder;         // as written in [checkpoint] folder
  bool has_runs = false;                 // in `runs`
  std::vector<RunCandidate> candidates;  // the newest run first, up to the first one with a usable checkpoint
};

struct ResumeChoice {
  std::optional<std::size_t> candidate;  // empty: a new run begins
  std::vector<std::string> warnings;
};
// A run killed before its first checkpoint does not hide an earlier run. Throws Error(usage) if no checkpoint is usable and the
// user asked for one, or if all are damaged, since a new run would silently lose the progress.
ResumeChoice choose_resume(const ResumeRequest& request, const ResumePlaces& places);

// The checkpoint that a run resumes from. Its tensors may have been moved away.
struct ResumePoint : FoundCheckpoint {
  std::filesystem::path run;     // the folder; known to rank 0
  std::string latest;            // target of `latest` when this was chosen; known to rank 0
  bool was_named = false;        // by a user
  bool rewinds_history = false;  // abandons later steps of the run: the user named an older checkpoint, or on_nan rolls back
};
// Inspects the places and chooses. `rolls_back`: values went wrong after the checkpoint. Empty: a new run begins. Throws as
// choose_resume(), and Error(usage) for a folder that does not hold a run.
std::optional<ResumePoint> find_resume_point(const ResumeRequest& request, const RunPlaces& places, bool rolls_back,
                                             const std::function<void(std::string)>& warn);
// Gives all processes the checkpoint that rank 0 has chosen: they read it, or receive it from rank 0 if they lack a whole copy.
// All call it; `failed`: rank 0 has thrown.
void share_resume_point(std::optional<ResumePoint>& point, bool failed, const RunPlaces& places, Group& group);

// Sends rank 0's checkpoint to all ranks that have none or another one, since a copy may come from an earlier attempt at the
// same steps. Both ends use a temporary folder. All ranks call it. Throws as read_checkpoint() and write_checkpoint(). REQUIRES:
// rank 0 has one.
void send_where_missing(std::optional<Checkpoint>& checkpoint, Group& group);

}  // namespace millrace
