#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace millrace::drawing {
namespace {

constexpr double kNumbers = 9.5, kTitle = 12, kGap = 6;  // sizes of letters; the space around them

// The smallest of 1, 2, 2.5, 5 and 10 times a power of 10 that is >= rough.
double round_up(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double digit : {1.0, 2.0, 2.5, 5.0}) {
    if (digit * power >= rough * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

int decimals_of(double step) {
  for (int decimals = 0; decimals < 12; ++decimals) {
    const double scaled = step * std::pow(10, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 12;
}

std::string power_text(double value) {
  const int exponent = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  const double digits = value / std::pow(10, exponent);
  if (exponent >= -3 && exponent <= 3) return fmt::format("{:.4g}", value);
  return fmt::format("{:.2g}e{}", digits, exponent);
}

// The multiples of powers of ten between two numbers, with these digits.
std::vector<double> powers_between(double low, double high, std::initializer_list<double> digits, int every) {
  std::vector<double> found;
  for (int exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= std::log10(high) + 1; ++exponent) {
    if (exponent % every != 0) continue;
    for (const double digit : digits) {
      const double value = digit * std::pow(10, exponent);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push_back(value);
    }
  }
  return found;
}

}  // namespace

std::string number_text(double value, double step) {
  if (std::abs(value) < 1e-9 * step) return "0";
  const double most = std::max(std::abs(value), step);
  if (most >= 1e9 || step < 1e-4) return fmt::format("{:.3g}", value);
  if (step >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (step >= 1e3) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.{}f}", value, decimals_of(step));
}

Scale Scale::around(std::span<const double> values, Kind kind) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || (kind == Kind::logarithmic && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return kind == Kind::logarithmic ? Scale(0.1, 1, kind) : Scale(0, 1, kind);
  if (kind == Kind::logarithmic) return {low / 1.15, high * 1.15, kind};
  const double size = std::max({std::abs(low), std::abs(high), 1e-12});
  if (high - low < 1e-6 * size) {  // one value
    low -= low > 0 ? std::min(low, 0.5 * size) : 0.5 * size;
    high += 0.5 * size;
  }
  if (low > 0 && low < 0.35 * high) low = 0;         // extends a little, so that the axis begins at 0
  if (kind == Kind::percent && high - low < 0.02) {  // small differences must look small
    low -= 0.01;
    high += 0.01;
  }
  const double step = round_up((high - low) / 8);
  low = step * std::floor(low / step + 1e-9);
  high = step * std::ceil(high / step - 1e-9);
  if (kind == Kind::percent) return {std::max(low, 0.0), std::min(std::max(high, low + step), 1.0), kind};
  return {low, high, kind};
}

double Scale::place(double value) const {
  if (kind_ != Kind::logarithmic) return (value - low_) / (high_ - low_);
  return value > 0 ? std::log(value / low_) / std::log(high_ / low_) : NAN;
}

std::vector<Scale::Tick> Scale::ticks(int most) const {
  std::vector<Tick> ticks;
  if (kind_ == Kind::blank) return ticks;
  if (kind_ == Kind::logarithmic) {
    std::vector<double> values = powers_between(low_, high_, {1, 2, 5}, 1);
    if (static_cast<int>(values.size()) > most) values = powers_between(low_, high_, {1}, 1);
    for (int every = 2; static_cast<int>(values.size()) > most; ++every) values = powers_between(low_, high_, {1}, every);
    if (values.size() >= 2) {
      for (const double value : values) ticks.push_back({value, power_text(value)});
      return ticks;
    }
  }
  const double factor = kind_ == Kind::percent ? 100 : 1, low = factor * low_, high = factor * high_;
  const double step = std::max(round_up((high - low) / (most - 1)), kind_ == Kind::count ? 1.0 : 0.0);
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; ++n) {
    ticks.push_back({n * step / factor, number_text(n * step, step) + (kind_ == Kind::percent ? " %" : "")});
  }
  return ticks;
}

Plot::Plot(Picture& picture, const Area& area, const Scale& x, const Scale& y, const Titles& titles)
    : picture_(picture), x_(x), y_(y), area_(area) {
  const double numbers = line_height(kNumbers), top = titles.top.empty() ? numbers / 2 : line_height(kTitle) + 2 * kGap;
  const double bottom = numbers + kGap + (titles.x.empty() ? 0 : numbers);
  const auto ticks = y.ticks(std::max(2, static_cast<int>((area.height - top - bottom) / 28)));
  double left = 0;
  for (const Scale::Tick& tick : ticks) left = std::max(left, extent_of(tick.text, {.size = kNumbers}).width);
  left += kGap;
  inside_ = {area.left + left, area.top + top, area.width - left - 2 * kGap, area.height - top - bottom};
  const TextStyle title = {.size = kTitle, .bold = true, .most = area.width};
  picture_.text({area.left, area.top}, titles.top, title);
  title_right_ = area.left + extent_of(titles.top, title).width;
  draw_y(y, ticks);
  draw_x(x, numbers, titles.x);
}

void Plot::draw_y(const Scale& y, const std::vector<Scale::Tick>& ticks) {
  for (const Scale::Tick& tick : ticks) {
    const double at = inside_.bottom() - inside_.height * y.place(tick.value);
    picture_.line({inside_.left, at}, {inside_.right(), at}, {.colour = kOptimizer, .thickness = 0.75});
    picture_.text({inside_.left - kGap, at - line_height(kNumbers) / 2}, tick.text,
                  {.size = kNumbers, .colour = kFaint, .align = Align::right});
  }
}

void Plot::draw_x(const Scale& x, double numbers, std::string_view title) {
  picture_.line({inside_.left, inside_.bottom()}, {inside_.right(), inside_.bottom()}, {.colour = kFaint});
  const double top = inside_.bottom() + kGap / 2;
  double free = area_.left;  // where the next number may begin
  for (const Scale::Tick& tick : x.ticks(std::max(2, static_cast<int>(inside_.width / 45)))) {
    const double at = inside_.left + inside_.width * x.place(tick.value);
    const double width = extent_of(tick.text, {.size = kNumbers}).width;
    const double left = std::min(at - width / 2, area_.right() - width);
    picture_.line({at, inside_.bottom()}, {at, inside_.bottom() + 3}, {.colour = kFaint});
    if (left < free) continue;
    picture_.text({left, top}, tick.text, {.size = kNumbers, .colour = kFaint});
    free = left + width + kGap;
  }
  picture_.text({inside_.middle().x, top + numbers}, title,
                {.size = kNumbers, .colour = kFaint, .align = Align::centre, .most = inside_.width});
}

Point Plot::at(double x, double y) const {
  return {inside_.left + inside_.width * x_.place(x), inside_.bottom() - inside_.height * y_.place(y)};
}

void Plot::curve(std::span<const Point> values, LineStyle style) {
  std::vector<Point> places;
  for (const Point& value : values) places.push_back(at(value.x, value.y));
  style.within = &inside_;
  picture_.line(places, style);
}

void Plot::dots(std::span<const Point> values, double radius, LineStyle style) {
  std::vector<Point> places;
  for (const Point& value : values) places.push_back(at(value.x, value.y));
  style.within = &inside_;
  picture_.dots(places, radius, style);
}

void Plot::band(double from_x, double to_x, Colour colour, double opacity) {
  const double from = std::clamp(at(from_x, 0).x, inside_.left, inside_.right());
  const double to = std::clamp(at(to_x, 0).x, inside_.left, inside_.right());
  if (to > from) picture_.fill({from, inside_.top, to - from, inside_.height}, colour, opacity);
}

void Plot::mark(double x, const LineStyle& style) {
  const double at = inside_.left + inside_.width * x_.place(x);
  picture_.line({at, inside_.top}, {at, inside_.bottom()}, style);
}

void Plot::legend(const std::vector<Key>& keys) {
  constexpr double kSwatch = 18;
  double right = inside_.right();
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const TextStyle style = {.size = kNumbers, .colour = kFaint};
    const double left = right - extent_of(key->text, style).width, middle = area_.top + line_height(kTitle) / 2;
    if (left - kSwatch - kGap < title_right_ + 2 * kGap) return;
    picture_.text({left, middle - line_height(kNumbers) / 2}, key->text, style);
    const Point from = {left - kSwatch - kGap / 2, middle}, to = {left - kGap, middle};
    picture_.line(from, to, {.colour = key->colour, .thickness = 2});
    const std::vector<Point> dot = {{(from.x + to.x) / 2, middle}};
    if (key->dotted) picture_.dots(dot, 3, {.colour = key->colour});
    right = left - kSwatch - 3 * kGap;
  }
}

}  // namespace millrace::drawing
