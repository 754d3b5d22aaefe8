// What the stage implements that counts samples into batches.
#pragma once

#include <cstdint>

#include "millrace/stage.h"

namespace millrace {

// How many samples a step has, how many batches circulate, and what happens to bad samples. Part of the `batch` stage.
struct BatchSpec {
  std::uint32_t size = 0;     // global; 0: the run chooses the largest that its memory holds, as for the key `size` = "auto"
  std::uint32_t buffers = 3;  // circulating batches: the bound of every data edge
  // An epoch's incomplete last batch: left out; smaller; filled up with the epoch's first samples.
  enum class Last { drop, keep, wrap } last = Last::drop;

  std::uint64_t steps(std::uint64_t samples, std::uint32_t global_size) const {  // of an epoch
    return (samples + (last == Last::drop ? 0 : global_size - 1)) / global_size;
  }
};

// A stage that counts samples into batches. A graph with a Source has exactly one; the framework makes the batches it asks for.
class Batcher : public Stage {
 public:
  virtual BatchSpec spec() const = 0;
};

// Makes `numbers` and `row_offsets` of the samples' rows, when every slot has arrived. REQUIRES: row_offsets.
void gather_rows(Batch& batch);

}  // namespace millrace
