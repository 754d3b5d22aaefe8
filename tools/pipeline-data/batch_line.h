// Complete batches of a graph without a running graph: for stages after `batch` that change images, such as mix_images.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data_set.h"
#include "millrace/util/batcher.h"

namespace millrace {

// REQUIRES: data whose images have one size. `data` must outlive it.
class BatchLine {
 public:
  // Makes `batch` and the following stages that take and return a batch; throws their errors about parameters, and about images
  // unsuitable for the network.
  explicit BatchLine(const DataSet& data);

  bool changes_batches() const { return !stages_.empty(); }
  std::uint64_t steps() const;  // per epoch; one if it is less than a batch

  // The batch of this number in an epoch, as used by the training step. Bad samples have weight 0 and keep their fault; a run may
  // have replaced them. Its samples are as they arrived at `batch`.
  Ref<Batch> load(std::uint64_t epoch, std::uint64_t number, unsigned threads) const;

 private:
  std::shared_ptr<Stage> make(const StagePlan& plan, StepContext context) const;
  void fill(Batch& batch, std::uint32_t slot, const SampleKey& key) const;

  const DataSet& data_;
  BatchSpec spec_;
  std::vector<std::shared_ptr<Stage>> stages_;
};

}  // namespace millrace
