#include "millrace/util/course.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace millrace {
namespace {

std::string six_digits(double value) { return fmt::format("{:.6g}", value); }  // more digits than any screen resolves

}  // namespace

void Course::smooth(std::uint64_t step, double value) {
  const double steps = last_step_ == 0 || step <= last_step_ ? 1 : static_cast<double>(step - last_step_);
  const double keep = memory_ > 0 ? std::exp(-steps / memory_) : 0;
  mean_ = keep * mean_ + (1 - keep) * value;
  weight_ = keep * weight_ + (1 - keep);
  last_step_ = step;
}

void Course::add(std::uint64_t step, double value) {
  if (points_.size() == kMax && points_.back().values == stride_) halve();
  if (points_.empty() || points_.back().values == stride_) points_.emplace_back();
  Point& point = points_.back();
  changed_ = std::min(changed_, points_.size() - 1);
  point.step = step;
  ++point.values;
  if (std::isfinite(value)) {
    smooth(step, value);
    point.least = point.finite == 0 ? value : std::min(point.least, value);
    point.greatest = point.finite == 0 ? value : std::max(point.greatest, value);
    point.sum += value;
    ++point.finite;
  }
  point.smooth = weight_ > 0 ? mean_ / weight_ : 0;
}

void Course::halve() {
  for (std::size_t i = 0; i < kMax / 2; ++i) {
    Point joined = points_[2 * i];
    const Point& next = points_[2 * i + 1];
    if (next.finite > 0) {
      joined.least = joined.finite == 0 ? next.least : std::min(joined.least, next.least);
      joined.greatest = joined.finite == 0 ? next.greatest : std::max(joined.greatest, next.greatest);
    }
    joined.step = next.step;
    joined.values += next.values;
    joined.finite += next.finite;
    joined.sum += next.sum;
    joined.smooth = next.smooth;
    points_[i] = joined;
  }
  points_.resize(kMax / 2);
  stride_ *= 2;
  changed_ = 0;
}

std::string Course::json(std::size_t first) const {
  std::string text = "[";
  for (std::size_t i = first; i < points_.size(); ++i) {
    const Point& point = points_[i];
    if (i > first) text += ',';
    if (point.finite == 0) {
      fmt::format_to(std::back_inserter(text), "[{},null,null,null,null]", point.step);
      continue;
    }
    fmt::format_to(std::back_inserter(text), "[{},{},{},{},{}]", point.step,
                   six_digits(point.sum / static_cast<double>(point.finite)), six_digits(point.least), six_digits(point.greatest),
                   six_digits(point.smooth));
  }
  return text += ']';
}

std::size_t Course::take_changed() {
  const std::size_t changed = changed_;
  changed_ = points_.size();
  return changed;
}

}  // namespace millrace
