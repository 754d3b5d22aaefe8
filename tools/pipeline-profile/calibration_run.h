// Runs a pipeline for some seconds and measures it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibration.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/util/group.h"

namespace millrace {

// The size in the header of a JPEG or PNG file. Zeros for other and broken files. Channels are not read.
ImageShape encoded_size(std::span<const std::uint8_t> bytes);

struct PreparedRun;

// The pipeline from the command line.
struct ProfiledFile {
  std::string file;
  std::vector<std::string> overrides;
  std::string devices, graph;
};

struct CalibrationOptions {
  std::uint64_t steps = 20;  // minimum, after a warm-up of a few
  double seconds = 5;        // minimum
  double most_seconds = 60;  // after this, fewer steps suffice
  bool layers = false;       // times the layers, which slows down a step, for DeviceFacts::bucket_ready
  bool only_steps = false;   // reuses the first batches
  Group* group = nullptr;    // the ranks that run it together: only rank 0 gets windows
};

// Without running it. Throws Error if it is wrong.
RunFacts facts_of(const ProfiledFile& what, const Registry& registry);

// The fraction of a step's images that replicas of this process compute; 1 without replicas.
double part_of_batch(const PreparedRun& prepared);

// Writes nothing. Throws Error if the pipeline is wrong or fails, and if it ended before anything was measured.
Calibration calibrate(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options = {});

// Measures steps alone, for the requested and the current settings: concurrent replicas disturb each other's caches. Skips those
// that want more cores than this machine has; empty if replicas do not compute on the host. `facts`: the file's.
std::vector<StepsAlone> calibrate_steps(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                                        const RunFacts& facts, const std::vector<StepShare>& asked);

}  // namespace millrace
