// Runs a pipeline for some seconds and measures it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration.h"
#include "millrace/plugin.h"
#include "millrace/util/group.h"

namespace millrace {

struct PreparedRun;

// Which pipeline, as the command line says it.
struct ProfiledFile {
  std::string file;
  std::vector<std::string> overrides;
  std::string devices, graph;
};

struct CalibrationOptions {
  std::uint64_t steps = 20;  // at least, after a warm-up of a few
  double seconds = 5;        // at least
  double most_seconds = 60;  // after which fewer steps do
  bool layers = false;       // times the layers, which slows a step down, for DeviceFacts::bucket_ready
  bool only_steps = false;   // the first batches are used again and again
  Group* group = nullptr;    // the ranks that run it together: rank 0 gets windows, and the others none
};

// Without running it. Throws Error where it is wrong.
RunFacts facts_of(const ProfiledFile& what, const Registry& registry);

// The part of a step's images that replicas of this process compute; 1 where there is no replica.
double part_of_batch(const PreparedRun& prepared);

// Nothing is written. Throws Error where the pipeline is wrong or fails, and where it ended before anything was measured.
Calibration calibrate(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options = {});

// Steps alone, as they are asked for and as they are: replicas that compute at once disturb each other in caches. Without those
// that want more cores than this machine has, and with none where replicas do not compute on the host's. `facts`: of the file.
std::vector<StepsAlone> calibrate_steps(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                                        const RunFacts& facts, const std::vector<StepShare>& asked);

}  // namespace millrace
