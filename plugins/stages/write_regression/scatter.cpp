#include "scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "millrace/loss.h"

namespace millrace {
namespace {

using drawing::Point;

constexpr double kMargin = 20, kPanel = 300, kApart = 24, kHeading = 15, kSmall = 11;
constexpr int kMostColumns = 4;

std::vector<Point> drawn_of(const std::vector<Point>& pairs) {
  std::vector<Point> drawn;
  const std::size_t every = std::max<std::size_t>(1, (pairs.size() + kMostDots - 1) / kMostDots);
  for (std::size_t i = 0; i < pairs.size(); i += every) {
    if (std::isfinite(pairs[i].x) && std::isfinite(pairs[i].y)) drawn.push_back(pairs[i]);
  }
  return drawn;
}

void draw_panel(drawing::Picture& picture, Point at, const std::string& name, const std::vector<Point>& pairs) {
  const std::vector<Point> drawn = drawn_of(pairs);
  std::vector<double> values;
  for (const Point& pair : drawn) values.insert(values.end(), {pair.x, pair.y});
  const drawing::Scale scale = drawing::Scale::around(values);
  drawing::Plot plot(picture, {at.x, at.y, kPanel, kPanel}, scale, scale, {.top = name, .x = "target"});
  plot.curve(std::vector<Point>{{scale.low(), scale.low()}, {scale.high(), scale.high()}},
             {.colour = drawing::kFaint, .dashed = true});
  plot.dots(drawn, 2.5, {.colour = drawing::kBlue, .opacity = drawn.size() > 200 ? 0.35 : 0.7});
  const ColumnErrors errors = ColumnErrors::of(pairs);
  picture.text({at.x, at.y + kPanel + 2},
               fmt::format("RMSE {:.4g}, MAE {:.4g}, {}{}", errors.rmse, errors.mae,
                           errors.explained ? fmt::format("R² {:.3f}", *errors.explained) : "no R²: targets are the same",
                           errors.not_finite > 0 ? fmt::format(", {} not finite", errors.not_finite) : ""),
               {.size = kSmall, .colour = drawing::kFaint, .most = kPanel});
}

}  // namespace

ColumnErrors ColumnErrors::of(const std::vector<Point>& pairs) {
  ColumnErrors errors;
  const auto is_finite = [](const Point& pair) { return std::isfinite(pair.y); };
  errors.count = static_cast<std::size_t>(std::ranges::count_if(pairs, is_finite));
  errors.not_finite = pairs.size() - errors.count;
  const auto count = static_cast<double>(errors.count);
  double mean = 0, squares = 0, spread = 0;
  for (const Point& pair : pairs | std::views::filter(is_finite)) mean += pair.x / count;
  for (const Point& pair : pairs | std::views::filter(is_finite)) {
    const double far = pair.y - pair.x;
    squares += far * far;
    errors.mae += std::abs(far) / count;
    spread += (pair.x - mean) * (pair.x - mean);
  }
  if (errors.count > 0) errors.rmse = std::sqrt(squares / count);
  const bool are_same = std::ranges::all_of(pairs, [&](const Point& pair) { return pair.x == pairs.front().x; });
  if (errors.count > 0 && !are_same) errors.explained = 1 - squares / spread;
  return errors;
}

drawing::Picture scatter(const std::vector<std::string>& names, const std::vector<std::vector<Point>>& pairs,
                         const std::string& heading) {
  const int panels = static_cast<int>(std::min(names.size(), kMostPanels));
  const int columns = std::max(1, std::min(panels, kMostColumns)), rows = (panels + columns - 1) / columns;
  const double above = drawing::line_height(kHeading) + drawing::line_height(kSmall) + kMargin;
  const double down = kPanel + drawing::line_height(kSmall) + kApart;
  const double width = columns * (kPanel + kApart) - kApart;
  drawing::Picture picture(width + 2 * kMargin, above + rows * down - kApart + 2 * kMargin);
  picture.text({kMargin, kMargin}, heading, {.size = kHeading, .bold = true, .most = width});
  const std::string below = names.size() > kMostPanels
                                ? fmt::format("predictions over targets, {} of {} numbers", kMostPanels, names.size())
                                : "predictions over targets";
  picture.text({kMargin, kMargin + drawing::line_height(kHeading) + 4}, below,
               {.size = kSmall, .colour = drawing::kFaint, .most = width});
  for (int i = 0; i < panels; ++i) {
    const auto at = static_cast<std::size_t>(i);
    draw_panel(picture, {kMargin + i % columns * (kPanel + kApart), kMargin + above + i / columns * down}, names[at], pairs[at]);
  }
  return picture;
}

}  // namespace millrace
