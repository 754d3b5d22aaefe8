// Whether the marks in a recording hold on this machine. Every update of a step waits for such a mark.
#pragma once

#include <string>

#include "machine.h"

namespace millrace::cuda {

// Records a chain of kernels with a mark in the middle, launches it a few times, and has another queue or the host read after
// the mark. Takes a few milliseconds. Returns what is wrong; empty: nothing. Throws Error(device) when a call fails.
std::string try_recording(Machine& machine);

}  // namespace millrace::cuda
