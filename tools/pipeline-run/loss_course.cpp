#include "loss_course.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace {
namespace {

constexpr double kGoal = 10;           // factor below the first loss
constexpr double kFar = 10;            // factor above it; a network may recover from less
constexpr std::size_t kFarSteps = 20;  // consecutive
constexpr double kGrown = 1.5;         // factor of the first loss
constexpr double kMoved = 0.03;        // fraction of the first loss: re-augmented images differ by about this much
constexpr double kAsGood = 0.02;       // fraction of the loss of guessing

}  // namespace

double LossCourse::mean_of_last(std::size_t count) const {
  count = std::min(count, losses_.size());
  return std::accumulate(losses_.end() - static_cast<std::ptrdiff_t>(count), losses_.end(), 0.0) / static_cast<double>(count);
}

double LossCourse::last() const { return mean_of_last(batches_); }
double LossCourse::settled() const { return mean_of_last(std::max(batches_, losses_.size() / 2)); }

double LossCourse::goal() const { return std::min(first(), guess_.value_or(first())) / kGoal; }

bool LossCourse::broken() const { return !losses_.empty() && !std::isfinite(losses_.back()); }

bool LossCourse::learned() const { return losses_.size() >= batches_ && last() <= goal(); }

bool LossCourse::diverges() const {
  const std::size_t steps = std::max(kFarSteps, batches_);
  if (losses_.size() < steps) return false;
  const double far = kFar * std::max(first(), guess_.value_or(first()));
  return *std::min_element(losses_.end() - static_cast<std::ptrdiff_t>(steps), losses_.end()) > far;
}

bool LossCourse::grew() const { return diverges() || settled() > kGrown * first(); }

bool LossCourse::hardly_moved() const {
  const std::size_t pass = std::min(batches_, losses_.size());
  const double begin =
      std::accumulate(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(pass), 0.0) / static_cast<double>(pass);
  return std::abs(settled() - begin) <= kMoved * std::abs(begin);
}

bool LossCourse::guesses() const { return guess_ && std::abs(settled() - *guess_) <= kAsGood * *guess_; }

}  // namespace millrace
