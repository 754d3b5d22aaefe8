#include "rate_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace millrace {
namespace {

constexpr double kKept = 0.9;          // fraction of the average kept from step to step
constexpr double kExplosion = 4;       // factor above the lowest average
constexpr std::size_t kAround = 5;     // steps on each side, in which rates rise to two and a half times
constexpr double kOfTheFall = 0.9;     // fraction of the fall reached at the proposal
constexpr std::size_t kFirst = 20;     // steps: rates up to 4e-6, at which almost nothing is learned
constexpr double kClearly = 2.2;       // deviations of single losses: smoothed ones differ as much in one run of ten thousand
constexpr double kSlightly = 0.8;      // the same, if larger rates make the loss clearly worse
constexpr double kLeastShare = 0.005;  // relative to the first losses
constexpr double kNothing = 1e-6;      // the same: float32's resolution relative to them
constexpr std::size_t kInARow = 5;     // consecutive losses of almost 0

}  // namespace

void RateCurve::add(double rate, double loss) {
  average_ = kKept * average_ + (1 - kKept) * loss;
  points_.push_back({rate, loss, loss});
  const double recent = average_ / (1 - std::pow(kKept, static_cast<double>(points_.size())));
  least_ = points_.size() == 1 ? recent : std::min(least_, recent);
  exploded_ = !std::isfinite(recent) || recent > kExplosion * least_;
  for (std::size_t p = 0; p < points_.size(); ++p) points_[p].smoothed = around(p);
}

// Losses of at least twice the first ones are capped, since their size carries no information. Steps after an explosion count as
// capped too.
double RateCurve::around(std::size_t point) const {
  const double most = level() + std::abs(level());
  const std::size_t behind = exploded_ ? kAround : points_.size() - 1 - point;
  const std::size_t reach = std::min({kAround, point, behind});
  double sum = 0;
  for (std::size_t p = point - reach; p <= point + reach; ++p) {
    const bool is_number = p < points_.size() && std::isfinite(points_[p].loss);
    sum += is_number ? std::min(points_[p].loss, most) : most;
  }
  return sum / static_cast<double>(2 * reach + 1);
}

std::span<const RatePoint> RateCurve::smoothed_well() const {
  const std::span<const RatePoint> all = points_;
  if (all.size() <= 2 * kAround) return all;  // empty
  return all.subspan(kAround, all.size() - kAround - (exploded_ ? 0 : kAround));
}

const RatePoint* RateCurve::lowest() const {
  const RatePoint* best = nullptr;
  for (const RatePoint& point : smoothed_well()) {
    if (std::isfinite(point.smoothed) && (best == nullptr || point.smoothed < best->smoothed)) best = &point;
  }
  return best;
}

bool RateCurve::falls_at_the_end() const {
  return !exploded_ && lowest() != nullptr && lowest() + kAround >= &smoothed_well().back();
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
    if (in_a_row == kInARow) return true;
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
  for (const RatePoint* point = best; point <= &smoothed_well().back(); ++point) worst = std::max(worst, point->smoothed);
  const bool rises = worst > level() + clear();
  if (falls_slightly() && !(rises && fall() > kSlightly * deviation())) return 0;
  const RatePoint* begin = best;
  while (begin != &points_[kFirst] && (begin - 1)->smoothed <= floor()) --begin;
  return begin->rate;
}

// Losses up to this cannot be distinguished from the lowest, or gain little: one standard error of a smoothed loss, or a tenth.
double RateCurve::floor() const {
  const double error = deviation() / std::sqrt(static_cast<double>(2 * kAround + 1));
  return level() - fall() + std::max((1 - kOfTheFall) * fall(), error);
}

}  // namespace millrace
