// `load = "auto"`: the shares of replicas, as they are measured to compute.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "prepare/prepared_run.h"

namespace millrace {

bool measures_load(const Pipeline& pipeline);  // the file leaves the shares to the run

// Shares in proportion to what replicas compute in a second: 1 for the fastest one, in steps of 0.05. Empty: they differ
// by less than a tenth, or one could not be measured.
std::vector<double> shares_of(const std::vector<double>& samples_per_second);

// With which the run of a checkpoint began; empty: it had another number of replicas, or equal shares. `then`: its pipeline.
std::vector<double> kept_load(const Value& then, std::size_t replicas);

// Measures all replicas of the run at once, since those of one machine share its memory: forward passes over black images, for
// half a second after a warm-up. Sets the shares of run.replicas, and says them in run.load_choice. A run that resumes with as
// many replicas has them already. All processes call it. REQUIRES: measures_load(run.pipeline), and what `compiling` refers to is
// the run's.
void choose_load(PreparedRun& run, const ReplicaSet::Compiling& compiling);

std::string load_text(const std::vector<double>& load);  // "[1, 0.55]"

}  // namespace millrace
