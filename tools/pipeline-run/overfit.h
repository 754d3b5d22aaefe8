// --overfit: whether a network can learn a few batches by heart. Where it cannot, the labels, the loss or the learning rate are
// wrong.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "trial.h"

namespace millrace {

// The main graph sees so many batches again and again, until the mean loss of the last pass over them is a tenth of the first
// step's loss, or a loss is not finite.
class Overfit final : public Trial {
 public:
  // REQUIRES: 1 to kMostBatches.
  explicit Overfit(std::int64_t batches) : batches_(static_cast<std::size_t>(batches)) {}
  static constexpr std::uint64_t kMostSteps = 200, kLeastPasses = 10;
  static constexpr std::int64_t kMostBatches = kMostSteps / kLeastPasses;

  std::vector<std::string> overrides(const Pipeline& pipeline) const override;
  // Also label smoothing and mixed images: they keep the loss above a floor, which no network can learn away.
  void shorten(Pipeline& pipeline) const override;
  void check(const Session& session) const override;
  std::uint64_t most_steps() const override { return kMostSteps; }
  void step(const StepEvent& event) override;
  bool succeeded() const override;
  std::string text() const override;

 private:
  double loss() const;  // of the last pass over the batches
  bool failed() const;  // the last loss is not finite

  const std::size_t batches_;
  std::deque<double> losses_;  // of the last steps
  double first_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace millrace
