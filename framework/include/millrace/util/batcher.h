// Implemented by the stage that collects samples into batches.
#pragma once

#include <cstdint>

#include "millrace/stage.h"

namespace millrace {

// Size and number of batches, and the policy for bad samples. Part of the `batch` stage.
struct BatchSpec {
  std::uint32_t size = 0;     // global; 0: the run chooses the largest that fits in memory, as for the key `size` = "auto"
  std::uint32_t buffers = 3;  // circulating batches, which bound every data edge
  // An epoch's incomplete last batch: dropped; kept smaller; filled with the epoch's first samples.
  enum class Last { drop, keep, wrap } last = Last::drop;

  std::uint64_t steps(std::uint64_t samples, std::uint32_t global_size) const {  // per epoch
    return (samples + (last == Last::drop ? 0 : global_size - 1)) / global_size;
  }
};

// A stage that collects samples into batches. A graph with a Source has exactly one; the framework makes the batches.
class Batcher : public Stage {
 public:
  virtual BatchSpec spec() const = 0;
};

// Fills `numbers` and `row_offsets` from the samples' rows, once every slot has arrived. REQUIRES: row_offsets.
void gather_rows(Batch& batch);

}  // namespace millrace
