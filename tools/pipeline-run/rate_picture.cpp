#include "rate_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace millrace {
namespace {

constexpr int kPictureHeight = 600, kPictureWidth = 960;
constexpr int kLeft = 100, kRight = 30, kTop = 60, kBottom = 80;  // margins around the axes
constexpr int kLetters = 2, kTick = 8, kSpace = 10, kDot = 4, kMark = 12;
constexpr Colour kWhite = {255, 255, 255}, kInk = {30, 30, 30}, kGrid = {222, 222, 222}, kDots = {150, 180, 215},
                 kCurve = {20, 80, 160}, kProposed = {200, 60, 20};

// The losses that the upright axis spans, and its labels: round numbers with the same distance.
struct LossAxis {
  double low = 0, high = 1, step = 0.2;

  explicit LossAxis(std::span<const RatePoint> points) {
    double lowest = INFINITY, first = INFINITY;
    for (const RatePoint& point : points) {
      if (!std::isfinite(point.smoothed)) continue;
      if (!std::isfinite(first)) first = point.smoothed;
      lowest = std::min(lowest, point.smoothed);
    }
    if (!std::isfinite(lowest)) return;
    const double fall = std::max(first - lowest, 0.1 * std::max(std::abs(first), 1e-6));
    low = lowest - 0.3 * fall;
    high = first + 0.7 * fall;
    const double rough = (high - low) / 6, decade = std::pow(10, std::floor(std::log10(rough)));
    step = decade * (rough < 2 * decade ? 2 : rough < 5 * decade ? 5 : 10);
  }
  int digits() const { return std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))); }
};

class RateChart {
 public:
  explicit RateChart(const RateCurve& curve)
      : lowest_(curve.lowest()),
        proposal_(curve.proposal()),
        points_(curve.points()),
        losses_(points_),
        first_decade_(std::floor(std::log10(points_.front().rate) + 1e-9)),
        last_decade_(std::max(first_decade_ + 1, std::ceil(std::log10(points_.back().rate) - 1e-9))) {}

  Picture draw() {
    draw_axes();
    for (const RatePoint& point : points_) {
      if (point.loss >= losses_.low && point.loss <= losses_.high) square(point.rate, point.loss, kDot, kDots);
    }
    for (std::size_t i = 1; i < points_.size(); ++i) {
      const RatePoint &from = points_[i - 1], &to = points_[i];
      if (std::isfinite(from.smoothed) && std::isfinite(to.smoothed)) draw_curve(from, to);
    }
    mark_proposal();
    return picture_;
  }

 private:
  static constexpr int kAxisBottom = kPictureHeight - kBottom, kAxisRight = kPictureWidth - kRight;

  int x(double rate) const {
    const double share = (std::log10(rate) - first_decade_) / (last_decade_ - first_decade_);
    return kLeft + static_cast<int>(std::lround(share * (kAxisRight - kLeft)));
  }
  int y(double loss) const {
    const double share = (std::clamp(loss, losses_.low, losses_.high) - losses_.low) / (losses_.high - losses_.low);
    return kAxisBottom - static_cast<int>(std::lround(share * (kAxisBottom - kTop)));
  }
  // What lies within the axis of the line from one point to the next: it leaves the frame where the loss does.
  void draw_curve(const RatePoint& from, const RatePoint& to) {
    const double way = to.smoothed - from.smoothed;
    const auto share_at = [&](double loss) { return (loss - from.smoothed) / way; };  // of the way
    double begin = 0, end = 1;
    if (way != 0) {
      begin = std::max(begin, std::min(share_at(losses_.low), share_at(losses_.high)));
      end = std::min(end, std::max(share_at(losses_.low), share_at(losses_.high)));
    } else if (from.smoothed < losses_.low || from.smoothed > losses_.high) {
      return;
    }
    if (begin > end) return;
    const auto column = [&](double share) {
      return static_cast<int>(std::lround(x(from.rate) + share * (x(to.rate) - x(from.rate))));
    };
    picture_.line(y(from.smoothed + begin * way), column(begin), y(from.smoothed + end * way), column(end), kCurve, 3);
  }
  void square(double rate, double loss, int side, Colour colour) {
    picture_.rectangle(y(loss) - side / 2, x(rate) - side / 2, side, side, colour);
  }
  void text_at(int top, int middle, const std::string& text, Colour colour) {
    picture_.text(top, middle - text_width(text, kLetters) / 2, text, colour, kLetters);
  }

  void draw_axes() {
    for (double decade = first_decade_; decade <= last_decade_; ++decade) {
      const int at = x(std::pow(10, decade));
      picture_.line(kTop, at, kAxisBottom + kTick, at, kGrid);
      text_at(kAxisBottom + kTick + kSpace / 2, at, fmt::format("1e{:.0f}", decade), kInk);
    }
    for (double loss = losses_.step * std::ceil(losses_.low / losses_.step); loss <= losses_.high; loss += losses_.step) {
      const std::string label = fmt::format("{:.{}f}", loss, losses_.digits());
      picture_.line(y(loss), kLeft - kTick, y(loss), kAxisRight, kGrid);
      picture_.text(y(loss) - kTextHeight * kLetters / 2, kLeft - kTick - kSpace / 2 - text_width(label, kLetters), label, kInk,
                    kLetters);
    }
    picture_.line(kTop, kLeft, kAxisBottom, kLeft, kInk, 2);
    picture_.line(kAxisBottom, kLeft, kAxisBottom, kAxisRight, kInk, 2);
    text_at(kPictureHeight - kTextHeight * kLetters - kSpace, (kLeft + kAxisRight) / 2, "learning rate", kInk);
    const std::string upright = "loss, smoothed";
    picture_.text_upward((kTop + kAxisBottom + text_width(upright, kLetters)) / 2, kSpace, upright, kInk, kLetters);
  }

  void mark_proposal() {
    const std::string title =
        proposal_ > 0 ? fmt::format("proposed: --lr {:.2g}", proposal_) : std::string("no learning rate");
    text_at((kTop - kTextHeight * kLetters) / 2, (kLeft + kAxisRight) / 2, title, kProposed);
    if (proposal_ <= 0) return;
    picture_.line(kTop, x(proposal_), kAxisBottom, x(proposal_), kProposed, 2);
    square(lowest_->rate, lowest_->smoothed, kMark, kCurve);
    const auto behind = std::ranges::lower_bound(points_, proposal_, {}, &RatePoint::rate);
    if (behind != points_.end()) square(proposal_, behind->smoothed, kMark, kProposed);
  }

  const RatePoint* const lowest_;
  const double proposal_;
  const std::span<const RatePoint> points_;
  const LossAxis losses_;
  const double first_decade_, last_decade_;
  Picture picture_{kPictureHeight, kPictureWidth, kWhite};
};

}  // namespace

Picture rate_picture(const RateCurve& curve) { return RateChart(curve).draw(); }

}  // namespace millrace
