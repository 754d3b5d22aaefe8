// The part of hash_of_input() (millrace/sample.h) that one slot has.
#pragma once

#include <cstdint>

#include "millrace/batch.h"
#include "millrace/sample.h"

namespace millrace {

// Hash of what the network receives of this slot of a complete batch. `number`: the slot's, as the hash is to know it. Executes
// the slot's record on the host. REQUIRES: slot < batch.count
std::uint64_t hash_of_slot(const Batch& batch, std::uint32_t slot, std::uint64_t number);

}  // namespace millrace
