// One slot's part of hash_of_input() (millrace/util/batch_input.h).
#pragma once

#include <cstdint>

#include "millrace/batch.h"
#include "millrace/sample.h"

namespace millrace {

// Hash of the network's input from this slot of a complete batch. `number`: the slot's number in the hash. Executes the slot's
// record on the host. REQUIRES: slot < batch.count
std::uint64_t hash_of_slot(const Batch& batch, std::uint32_t slot, std::uint64_t number);

}  // namespace millrace
