// What the plugin opens when a file names it: mpi/mpi_wire.so beside the folder of plugins, which alone is linked to MPI.
#pragma once

#include "millrace/util/group.h"

namespace millrace {

// The processes of a run, which send by MPI. The caller owns it. REQUIRES: `group` outlives it, all its processes call this at
// the same time, and one thread at a time uses what it returns. Throws Error(usage) where MPI has not started the processes.
using MakeMpiGroup = Group*(Group* group);
inline constexpr const char* kMakeMpiGroup = "millrace_make_mpi_group";

}  // namespace millrace
