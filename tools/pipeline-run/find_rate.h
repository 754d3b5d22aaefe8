// --find-rate: the range test of learning rates (Smith, arXiv 1506.01186). The rate rises by a constant factor per step, until
// the loss explodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rate_curve.h"
#include "trial.h"

namespace millrace {

// 100 steps, from a rate of 1e-7 to one of 10, or until the loss explodes: see RateCurve.
class FindRate final : public Trial {
 public:
  // `picture`: the PNG file for write_files(); "" for none. Throws Error(usage) if this build cannot make it, Error(storage) if
  // it cannot be written.
  explicit FindRate(std::string picture);

  std::vector<std::string> overrides(const Pipeline& pipeline) const override;
  std::uint64_t most_steps() const override { return 100; }
  void check(const PreparedRun& prepared) override;
  double rate_factor(std::uint64_t step) const override;
  void step(const StepEvent& event) override;
  bool succeeded() const override { return curve_.proposal() > 0; }
  std::string text() const override;  // a table, and the proposal or the reason why there is none
  std::string write_files() const override;

 private:
  std::string progress() const override;
  std::string failure_reason() const;

  const std::string picture_;
  RateCurve curve_;
  bool scales_ = false;  // the rate is multiplied by the batch size
};

}  // namespace millrace
