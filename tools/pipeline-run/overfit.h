// --overfit: checks whether a network can memorise a few batches, and reports why it may not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loss_course.h"
#include "trial.h"

namespace millrace {

// The main graph repeats this many batches, until the mean loss of a pass over them is LossCourse::goal(), losses diverge, or one
// is not finite.
class Overfit final : public Trial {
 public:
  // REQUIRES: 1 to kMaxBatches.
  explicit Overfit(std::int64_t batches) : batches_(static_cast<std::size_t>(batches)), course_(batches_) {}
  static constexpr std::uint64_t kMaxSteps = 200, kLeastPasses = 10;
  static constexpr std::int64_t kMaxBatches = kMaxSteps / kLeastPasses;

  std::vector<std::string> overrides(const Pipeline& pipeline) const override;
  // Also removes label smoothing and mixed images, which put a floor under the loss.
  void shorten(Pipeline& pipeline) const override;
  void check(const PreparedRun& prepared) override;
  std::uint64_t most_steps() const override { return kMaxSteps; }
  void step(const StepEvent& event) override;
  bool succeeded() const override { return course_.steps() > 0 && course_.learned(); }
  std::string text() const override;  // "passed: " or "failed: ", and the verdict

 private:
  std::string progress() const override;
  bool over() const { return course_.steps() > 0 && (course_.broken() || course_.learned() || course_.diverges()); }
  std::string verdict() const;
  std::string failure_reason() const;

  const std::size_t batches_;
  LossCourse course_;
  double rate_ = 0;  // in the last step
};

}  // namespace millrace
