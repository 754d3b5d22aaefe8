// Whole batches of a graph, outside of a running one: for stages after `batch` that change images, such as mix_images.
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
  // Makes `batch` and the stages after it that take a batch and give one out; throws what they say of their parameters, and of
  // images that the network cannot take.
  explicit BatchLine(const DataSet& data);

  bool changes_batches() const { return !stages_.empty(); }
  std::uint64_t steps() const;  // of an epoch; one where it has not a whole one

  // The batch of this number in an epoch, as it goes into the training step. Bad samples have weight 0 in it and keep their
  // fault; a run may have replaced them. Its samples are as they arrived at `batch`.
  Ref<Batch> load(std::uint64_t epoch, std::uint64_t number, unsigned threads) const;

 private:
  std::shared_ptr<Stage> make(const StagePlan& plan, StepContext context) const;
  void fill(Batch& batch, std::uint32_t slot, const SampleKey& key) const;

  const DataSet& data_;
  BatchSpec spec_;
  std::vector<std::shared_ptr<Stage>> stages_;
};

}  // namespace millrace
