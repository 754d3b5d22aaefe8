// Evaluates the losses of --overfit, step by step.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace millrace {

// Losses of passes over the same batches. Before the first loss, only steps() and broken() are valid.
class LossCourse {
 public:
  explicit LossCourse(std::size_t batches) : batches_(batches) {}  // per pass
  void set_guess(std::optional<double> guess) { guess_ = guess; }  // the loss of guessing, if known
  void add(double loss) { losses_.push_back(loss); }

  std::size_t steps() const { return losses_.size(); }
  double first() const { return losses_.front(); }
  double newest() const { return losses_.back(); }
  double last() const;  // the mean of the last pass
  // A tenth of the first loss, or of the loss of guessing if that is smaller: an output layer with large initial weights must not
  // count as learning.
  double goal() const;
  std::optional<double> guess() const { return guess_; }

  bool broken() const;    // the last loss is not finite
  bool learned() const;   // the mean loss of a whole pass is at most goal()
  bool diverges() const;  // losses are far above the first one, and stay there
  // Observations about steps without learning:
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
