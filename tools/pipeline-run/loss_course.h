// The losses of --overfit, step by step, and what they say.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace millrace {

// Losses of passes over the same batches. Nothing but steps() and broken() may be asked before the first one.
class LossCourse {
 public:
  explicit LossCourse(std::size_t batches) : batches_(batches) {}  // of a pass
  void set_guess(std::optional<double> guess) { guess_ = guess; }  // the loss of guessing, where it is known
  void add(double loss) { losses_.push_back(loss); }

  std::size_t steps() const { return losses_.size(); }
  double first() const { return losses_.front(); }
  double newest() const { return losses_.back(); }
  double last() const;  // the mean of the last pass
  // A tenth of the first loss. Where that is worse than guessing, a tenth of the loss of guessing: an output layer that begins
  // with large weights is not to pass for one that learns.
  double goal() const;
  std::optional<double> guess() const { return guess_; }

  bool broken() const;    // the last loss is not finite
  bool learned() const;   // a whole pass has a mean loss of goal() or less
  bool diverges() const;  // losses are far above the first one, and do not come back
  // What is seen in steps that have not learned:
  bool grew() const;
  bool hardly_moved() const;
  bool guesses() const;

 private:
  double mean_of_last(std::size_t count) const;
  double settled() const;  // the mean of the second half

  const std::size_t batches_;
  std::vector<double> losses_;
  std::optional<double> guess_;
};

}  // namespace millrace
