#include "rate_curve.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

constexpr double kKept = 0.9;       // share of the average that stays from step to step
constexpr double kExplosion = 4;    // times the lowest smoothed loss
constexpr double kMargin = 10;      // from the rate of the lowest loss to the one that is proposed
constexpr std::size_t kFirst = 20;  // steps: rates up to 4e-6, at which next to nothing is learned
constexpr std::size_t kLast = 5;    // steps, within which rates rise to little more than twice
constexpr double kClearly = 2;      // deviations of single losses: by chance the average moves as far in no run of ten thousand
constexpr double kSlightly = 0.3;   // the same, where larger rates make the loss clearly worse
constexpr double kLeastShare = 0.005;  // of the first losses
constexpr double kNothing = 1e-6;      // the same: what float32 tells from 0 beside them

}  // namespace

void RateCurve::add(double rate, double loss) {
  average_ = kKept * average_ + (1 - kKept) * loss;
  points_.push_back({rate, loss, average_ / (1 - std::pow(kKept, static_cast<double>(points_.size() + 1)))});
}

const RatePoint* RateCurve::lowest() const {
  const RatePoint* best = nullptr;
  for (const RatePoint& point : points_) {
    if (std::isfinite(point.smoothed) && (best == nullptr || point.smoothed < best->smoothed)) best = &point;
  }
  return best;
}

bool RateCurve::exploded() const {
  if (points_.empty()) return false;
  const RatePoint* const best = lowest();
  const double smoothed = points_.back().smoothed;
  return !std::isfinite(smoothed) || (best != nullptr && smoothed > kExplosion * best->smoothed);
}

bool RateCurve::falls_at_the_end() const {
  return lowest() != nullptr && lowest() + kLast >= points_.data() + points_.size() && !exploded();
}

std::span<const RatePoint> RateCurve::first() const { return std::span(points_).first(std::min(kFirst, points_.size())); }

double RateCurve::level() const {
  double sum = 0;
  for (const RatePoint& point : first()) sum += point.loss;
  return points_.empty() ? 0 : sum / static_cast<double>(first().size());
}

double RateCurve::deviation() const {
  if (points_.size() < 2) return 0;
  double sum = 0;
  for (const RatePoint& point : first()) sum += std::pow(point.loss - level(), 2);
  return std::sqrt(sum / static_cast<double>(first().size() - 1));
}

bool RateCurve::falls_to_nothing() const {
  const double most = kNothing * std::abs(level());
  std::size_t in_a_row = 0;
  for (const RatePoint& point : points_) {
    in_a_row = std::abs(point.loss) <= most ? in_a_row + 1 : 0;
    if (in_a_row == kLast) return true;
  }
  return false;
}

double RateCurve::fall() const { return lowest() ? level() - lowest()->smoothed : 0; }
double RateCurve::clear() const { return std::max(kClearly * deviation(), kLeastShare * std::abs(level())); }
bool RateCurve::falls_slightly() const { return !(fall() > clear()); }

double RateCurve::proposal() const {
  const RatePoint* const best = lowest();
  if (best == nullptr || points_.size() <= kFirst || best < &points_[kFirst] || falls_to_nothing()) return 0;
  double worst = best->smoothed;
  for (const RatePoint* point = best; point != points_.data() + points_.size(); ++point) {
    worst = std::isfinite(point->smoothed) ? std::max(worst, point->smoothed) : INFINITY;
  }
  const bool rises = worst > level() + clear();
  return !falls_slightly() || (rises && fall() > kSlightly * deviation()) ? best->rate / kMargin : 0;
}

}  // namespace millrace
