#include "rate_picture.h"

#include <fmt/format.h>
#include <plot.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace millrace {
namespace {

using drawing::Point;

constexpr double kWidth = 800, kHeight = 480, kMargin = 24;

// The range of the relevant losses: the fall, and some room around it.
drawing::Scale loss_scale(std::span<const RatePoint> points) {
  double lowest = INFINITY, first = INFINITY;
  for (const RatePoint& point : points) {
    if (!std::isfinite(point.smoothed)) continue;
    if (!std::isfinite(first)) first = point.smoothed;
    lowest = std::min(lowest, point.smoothed);
  }
  if (!std::isfinite(lowest)) return {0, 1};
  const double fall = std::max(first - lowest, 0.1 * std::max(std::abs(first), 1e-6));
  return {lowest - 0.3 * fall, first + 0.7 * fall};
}

// From one power of ten to another.
drawing::Scale rate_scale(std::span<const RatePoint> points) {
  const double first = std::floor(std::log10(points.front().rate) + 1e-9);
  const double last = std::max(first + 1, std::ceil(std::log10(points.back().rate) - 1e-9));
  return {std::pow(10, first), std::pow(10, last), drawing::Scale::Kind::logarithmic};
}

}  // namespace

drawing::Picture rate_picture(const RateCurve& curve) {
  const std::span<const RatePoint> points = curve.points();
  const double proposal = curve.proposal();
  drawing::Picture picture(kWidth, kHeight);
  const double heading = drawing::line_height(16) + 12;
  picture.text({kMargin, kMargin}, proposal > 0 ? fmt::format("Proposed: --lr {:.2g}", proposal) : "No learning rate is proposed",
               {.size = 16, .bold = true});
  drawing::Plot plot(picture, {kMargin, kMargin + heading, kWidth - 2 * kMargin, kHeight - 2 * kMargin - heading},
                     rate_scale(points), loss_scale(points), {"loss", "learning rate"});
  std::vector<Point> single, smoothed;
  for (const RatePoint& point : points) {
    single.push_back({point.rate, point.loss});
    smoothed.push_back({point.rate, point.smoothed});
  }
  const drawing::Colour dots = drawing::mixed(drawing::kPaper, kCurveColour, 0.45);
  plot.dots(single, 1.75, {.colour = dots});
  plot.curve(smoothed, {.colour = kCurveColour, .thickness = 2});
  std::vector<drawing::Plot::Key> keys = {{"of one batch", dots, true}, {"smoothed", kCurveColour}};
  if (proposal > 0) {
    plot.mark(proposal, {.colour = kProposalColour, .thickness = 1.5});
    const auto behind = std::ranges::lower_bound(points, proposal, {}, &RatePoint::rate);
    const std::vector<Point> lowest = {{curve.lowest()->rate, curve.lowest()->smoothed}};
    plot.dots(lowest, 5, {.colour = kCurveColour});
    if (behind != points.end()) {
      const std::vector<Point> proposed = {{proposal, behind->smoothed}};
      plot.dots(proposed, 5, {.colour = kProposalColour});
    }
    keys.push_back({"lowest", kCurveColour, true});
    keys.push_back({"proposed", kProposalColour, true});
  }
  plot.legend(keys);
  return picture;
}

}  // namespace millrace
