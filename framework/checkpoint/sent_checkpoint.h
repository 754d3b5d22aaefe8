// A checkpoint on its way between machines that share no disk.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "millrace/util/group.h"

namespace millrace {

// Gives rank 0's checkpoint to all ranks that have none, or have another one: a copy may be of an earlier attempt at the same
// steps. It goes over a folder for temporary files at both ends, which holds it for a moment. All ranks call it. Throws what
// read_checkpoint() and write_checkpoint() throw. REQUIRES: rank 0 has one.
void send_where_missing(std::optional<Checkpoint>& checkpoint, Group& group);

}  // namespace millrace
