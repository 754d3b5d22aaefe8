// `load = "auto"`: shares of replicas by measured speed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "prepare/prepared_run.h"

namespace millrace {

bool measures_load(const Pipeline& pipeline);  // whether the shares are automatic

// Shares proportional to the replicas' speeds: 1 for the fastest one, in steps of 0.05. Empty if they differ by less than a
// tenth, or one could not be measured.
std::vector<double> shares_of(const std::vector<double>& samples_per_second);

// The shares at the start of a checkpoint's run; empty if it had another number of replicas, or equal shares. `then`: its
// pipeline.
std::vector<double> kept_load(const Value& then, std::size_t replicas);

// Measures all replicas of the run at once, since those of one machine share its memory: forward passes over black images, for
// half a second after a warm-up. Sets the shares of run.replicas, and describes them in run.load_choice. Skipped for a run that
// resumes with the same number of replicas. All processes call it. REQUIRES: measures_load(run.pipeline), and `compiling` refers
// to the run's objects.
void choose_load(PreparedRun& run, const ReplicaSet::Compiling& compiling);

std::string load_text(const std::vector<double>& load);  // "[1, 0.55]"

}  // namespace millrace
