// Sends a checkpoint between machines that share no disk.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "millrace/util/group.h"

namespace millrace {

// Sends rank 0's checkpoint to all ranks that have none or another one, since a copy may come from an earlier attempt at the
// same steps. Both ends use a temporary folder. All ranks call it. Throws as read_checkpoint() and write_checkpoint(). REQUIRES:
// rank 0 has one.
void send_where_missing(std::optional<Checkpoint>& checkpoint, Group& group);

}  // namespace millrace
