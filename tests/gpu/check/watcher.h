// What the command itself does: starts or finds the run, prints what is new, and copies what is finished.
#pragma once

#include "setting.h"

namespace millrace::gpu {

constexpr int kGoesOn = 75;  // exit status of a watch that ended before the run (EX_TEMPFAIL: try again)

// Returns the run's exit status, kGoesOn, or 128 + n after signal n.
int watch(const Setting& setting);

// Ends a run and all of its processes.
int stop(const Setting& setting);

}  // namespace millrace::gpu
