// The network's input from a complete batch, and the source of its pixels.
#pragma once

#include <cstdint>

#include "millrace/batch.h"

namespace millrace {

// A hash of the slots in use with their records executed, and of targets, numbers, labels, shares and weights. Independent of the
// device. Executes the records on the host: for comparison, not for speed.
std::uint64_t hash_of_input(const Batch& batch);

// Like seen_source() of a sample, for a slot; unknown for slots without weight.
SourceMap seen_source(const Batch& batch, std::uint32_t slot);

}  // namespace millrace
