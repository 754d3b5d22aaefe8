// Tests whether marks in a recording work on this machine. Every update of a step waits for such a mark.
#pragma once

#include <string>

#include "machine.h"

namespace millrace::cuda {

// Records a chain of kernels with a mark in the middle, launches it a few times, and reads after the mark from another queue or
// the host. Takes a few milliseconds. Returns the error, or "". Throws Error(device) if a call fails.
std::string try_recording(Machine& machine);

}  // namespace millrace::cuda
