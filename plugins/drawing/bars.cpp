#include "bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "counts.h"

namespace millrace::drawing {
namespace {

constexpr double kMargin = 20, kApart = 18, kRow = 17, kLetters = 10.5, kHeading = 15, kSmall = 11;
constexpr double kLongestName = 200, kBar = 150, kNumber = 52;  // widths

double right_or_none(double share, double occurring) { return occurring > 0 ? share : NAN; }

// The rows at these indices, in this order.
BarTable rows_of(const BarTable& all, const std::vector<std::size_t>& places) {
  BarTable some{all.title, all.subtitle, {}, all.columns};
  for (const std::size_t place : places) some.names.push_back(all.names[place]);
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    some.columns[c].values.clear();
    for (const std::size_t place : places) some.columns[c].values.push_back(all.columns[c].values[place]);
  }
  return some;
}

std::vector<std::size_t> sorted_by(const std::vector<double>& values, bool falling) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto key = [&](std::size_t place) { return std::isfinite(values[place]) ? values[place] : INFINITY; };
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return falling ? key(a) > key(b) : key(a) < key(b); });
  return places;
}

void draw_column(Picture& picture, double left, double top, const BarColumn& column) {
  picture.text({left, top - line_height(kSmall) - 4}, column.title, {.size = kSmall, .colour = kFaint, .most = kBar + kNumber});
  double largest = column.percent ? 1 : 0;
  for (const double value : column.values) {
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  double y = top;
  for (const double value : column.values) {
    const double length = std::isfinite(value) && largest > 0 ? kBar * value / largest : 0;
    picture.fill({left, y + 2.5, kBar, kRow - 5}, kOptimizer, 0.45);
    if (length > 0) picture.fill({left, y + 2.5, std::max(length, 0.5), kRow - 5}, column.colour, 0.85);
    const std::string text = !std::isfinite(value) ? "–" : column.percent ? share_text(value) : brief_count(value);
    picture.text({left + kBar + 6, y + (kRow - line_height(kLetters)) / 2}, text, {.size = kLetters, .colour = kFaint});
    y += kRow;
  }
}

}  // namespace

Picture draw(const BarTable& table) {
  const TextStyle title = {.size = kHeading, .bold = true}, subtitle = {.size = kSmall, .colour = kFaint};
  double names = 0;
  for (const std::string& name : table.names) {
    names = std::max(names, extent_of(name, {.size = kLetters, .most = kLongestName}).width);
  }
  const double columns = static_cast<double>(table.columns.size()) * (kBar + kNumber + kApart) - kApart;
  const double inner = std::max({names + 10 + columns, std::min(extent_of(table.title, title).width, 900.0),
                                 std::min(extent_of(table.subtitle, subtitle).width, 900.0)});
  const double top = kMargin + line_height(kHeading) + 2 * line_height(kSmall) + kApart;
  Picture picture(inner + 2 * kMargin, top + kRow * static_cast<double>(table.names.size()) + kMargin);
  TextStyle fitting = title;
  fitting.most = inner;
  picture.text({kMargin, kMargin}, table.title, fitting);
  fitting = subtitle;
  fitting.most = inner;
  picture.text({kMargin, kMargin + line_height(kHeading) + 2}, table.subtitle, fitting);
  double y = top;
  for (const std::string& name : table.names) {
    picture.text({kMargin + names, y + (kRow - line_height(kLetters)) / 2}, name,
                 {.size = kLetters, .align = Align::right, .most = kLongestName});
    y += kRow;
  }
  double left = kMargin + names + 10;
  for (const BarColumn& column : table.columns) {
    draw_column(picture, left, top, column);
    left += kBar + kNumber + kApart;
  }
  return picture;
}

Picture class_scores(const ClassMatrix& matrix, const std::vector<std::string>& names, bool of_pixels,
                     const std::string& heading) {
  BarTable table{heading, {}, names, {}};
  BarColumn main{of_pixels ? "IoU" : "F1", {}, true, kBlue}, recall{of_pixels ? "accuracy" : "recall", {}, true, kSky};
  BarColumn precision{"precision", {}, true, kGreen}, count{of_pixels ? "pixels" : "images", {}, false, kFaint};
  for (std::size_t c = 0; c < matrix.classes(); ++c) {
    const double occurring = matrix.occurring(c);
    main.values.push_back(right_or_none(of_pixels ? matrix.iou(c) : matrix.f1(c), occurring));
    recall.values.push_back(right_or_none(matrix.accuracy(c), occurring));
    precision.values.push_back(matrix.predicted(c) > 0 ? matrix.precision(c) : NAN);
    count.values.push_back(occurring);
  }
  const double mean = of_pixels ? matrix.mean_iou() : matrix.mean_f1();
  table.subtitle =
      fmt::format("accuracy {}, mean {} {} over classes that occur or are predicted", share_text(matrix.accuracy()), main.title, share_text(mean));
  const std::vector<double> by = main.values;
  table.columns = {main, recall, precision, count};
  if (names.size() <= kMaxRows) return draw(table);
  std::vector<std::size_t> places = sorted_by(by, false);
  places.resize(kMaxRows);
  table.subtitle += fmt::format("; the {} classes of the lowest {}, of {}", kMaxRows, main.title, names.size());
  return draw(rows_of(table, places));
}

Picture label_histogram(const std::vector<double>& counts, const std::vector<std::string>& names, const std::string& heading) {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  BarTable table{heading, {}, names, {{"samples", counts, false, kBlue}, {"share", {}, true, kSky}}};
  for (const double count : counts) table.columns[1].values.push_back(all > 0 ? count / all : NAN);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (!counts.empty())
    table.subtitle = *least == *most
                         ? fmt::format("{} classes of {} samples", counts.size(), whole_text(*most))
                         : fmt::format("{} classes of {} to {} samples", counts.size(), whole_text(*least), whole_text(*most));
  if (names.size() <= kMaxRows) return draw(table);
  std::vector<std::size_t> places = sorted_by(counts, true);
  constexpr auto kHalf = static_cast<std::ptrdiff_t>(kMaxRows / 2);
  places.erase(places.begin() + kHalf, places.end() - kHalf);
  table.subtitle += fmt::format(": the {} most frequent ones, and the {} rarest", kHalf, kHalf);
  return draw(rows_of(table, places));
}

}  // namespace millrace::drawing
