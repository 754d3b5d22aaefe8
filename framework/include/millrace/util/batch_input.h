// What the network receives of a complete batch, and where its pixels come from.
#pragma once

#include <cstdint>

#include "millrace/batch.h"

namespace millrace {

// A hash of the slots in use as their records show them, targets, numbers, labels, shares and weights. The same whatever device
// executes the records; executes them on the host, for comparing and not for speed.
std::uint64_t hash_of_input(const Batch& batch);

// As seen_source() of a sample, for a slot; unknown for slots without weight.
SourceMap seen_source(const Batch& batch, std::uint32_t slot);

}  // namespace millrace
