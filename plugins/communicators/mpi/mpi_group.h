// Loaded when a file uses the plugin: mpi/mpi_wire.so next to the plugin folder, the only library linked to MPI.
#pragma once

#include "millrace/util/group.h"

namespace millrace {

// The processes of a run, communicating by MPI. The caller owns the result. REQUIRES: `group` outlives it, all its processes call
// this at the same time, and one thread at a time uses the result. Throws Error(usage) if MPI did not start the processes.
using MakeMpiGroup = Group*(Group* group);
inline constexpr const char* kMakeMpiGroup = "millrace_make_mpi_group";

}  // namespace millrace
