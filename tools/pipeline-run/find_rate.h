// --find-rate: the range test of learning rates (Smith, arXiv 1506.01186). The rate rises from step to step by one and the same
// factor, until the loss explodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trial.h"

namespace millrace {

// 100 steps, from a rate of 1e-7 to one of 10, or until the smoothed loss is four times its lowest value or no number.
class FindRate final : public Trial {
 public:
  std::vector<std::string> overrides(const Pipeline& pipeline) const override;
  std::uint64_t most_steps() const override { return 100; }
  double rate_factor(std::uint64_t step) const override;
  void step(const StepEvent& event) override;
  bool succeeded() const override { return proposal() > 0; }
  std::string text() const override;  // a table, and the proposal

 private:
  struct Row {
    double rate, loss, smoothed;
  };
  const Row* lowest() const;  // null where no loss was a number
  // The rate to begin with: a tenth of that at the lowest smoothed loss. 0 where the loss never fell below its first value.
  double proposal() const;

  std::vector<Row> rows_;
  double average_ = 0;  // exponential, of the losses so far, not yet corrected for its beginning at 0
};

}  // namespace millrace
