// Ranks that read one data set from disks of their own must find the same samples there.
#pragma once

#include "millrace/communicator.h"
#include "stages/build.h"

namespace millrace {

// Throws Error(data) naming the first difference, on all ranks. All ranks call it.
void require_same_listing(const GraphBuild& build, Group& group);

}  // namespace millrace
