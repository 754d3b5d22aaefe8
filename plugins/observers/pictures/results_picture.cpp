#include "results_picture.h"

#include <fmt/format.h>

#include <counts.h>
#include <plot.h>
#include <algorithm>
#include <cmath>
#include <utility>

namespace millrace::pictures {
namespace {

using namespace drawing;

constexpr double kWidth = 1200, kMargin = 24, kBetween = 28, kLarge = 330, kSmall = 190;
constexpr double kHeading = 18, kText = 11;
constexpr std::size_t kMaxSmall = 4;
constexpr Colour kTraining = kBlue, kOfPasses[] = {kOrange, kGreen, kPurple, kYellow};

// A few extreme values, such as those of the first steps, must not flatten the rest of a curve.
void add_bulk(std::vector<double>& values, const std::vector<Point>& points) {
  std::vector<double> sorted;
  for (const Point& point : points) {
    if (std::isfinite(point.y)) sorted.push_back(point.y);
  }
  std::sort(sorted.begin(), sorted.end());
  const std::size_t aside = sorted.size() >= 50 ? sorted.size() / 100 : 0;
  values.insert(values.end(), sorted.begin() + static_cast<std::ptrdiff_t>(aside),
                sorted.end() - static_cast<std::ptrdiff_t>(aside));
}

Scale scale_of(const std::vector<double>& values, bool percent) {
  if (percent) return Scale::around(values, Scale::Kind::percent);
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const bool is_wide = low > 0 && high > 200 * low;
  return Scale::around(values, is_wide ? Scale::Kind::logarithmic : Scale::Kind::linear);
}

const char* axis_of(const History& history) { return history.run().steps_per_epoch > 0 ? "epoch" : "step"; }

class Chart {
 public:
  Chart(const History& history, Picture& picture)
      : history_(history), picture_(picture), x_(0, std::max(1e-9, end_of(history))) {}

  void figure(const std::string& name, const Area& area) {
    const FigureHistory& figure = history_.figure(name);
    std::vector<Point> raw = history_.points(figure.steps), smooth = smoothed(raw);
    const bool by_epochs = raw.empty();
    if (by_epochs) raw = smooth = history_.points(figure.epochs);
    std::vector<double> values;
    add_bulk(values, raw);
    for (const auto& [graph, passes] : figure.passes) add_bulk(values, history_.points(passes.all));
    Plot plot = plot_of(area, scale_of(values, figure.percent), name);
    std::vector<Plot::Key> keys;
    if (!raw.empty()) {
      plot.curve(raw, {.colour = kTraining, .thickness = 1, .opacity = 0.28});
      plot.curve(smooth, {.colour = kTraining, .thickness = 2});
      if (smooth.size() == 1 || by_epochs) plot.dots(smooth, 3, {.colour = kTraining});
      if (!by_epochs) keys.push_back({history_.run().graph, mixed(kPaper, kTraining, 0.4)});
      keys.push_back({by_epochs ? history_.run().graph : "smoothed", kTraining, by_epochs});
    }
    std::size_t next = 0;
    for (const auto& [graph, passes] : figure.passes) {
      const Colour colour = kOfPasses[next++ % std::size(kOfPasses)];
      const std::vector<Point> points = history_.points(passes.all);
      plot.curve(points, {.colour = colour, .thickness = 2});
      if (points.size() <= 100) plot.dots(points, 3, {.colour = colour});
      keys.push_back({graph, colour, points.size() <= 100});
    }
    plot.legend(keys);
  }

  void series(const Course& series, const std::string& title, const Area& area, bool smooth) {
    const std::vector<Point> raw = history_.points(series), curve = smooth ? smoothed(raw) : raw;
    std::vector<double> values;
    for (const Point& point : raw) values.push_back(smooth ? point.y : 1.1 * point.y);  // room above a flat line
    values.push_back(0);
    Plot plot = plot_of(area, Scale::around(values), title);
    if (smooth) plot.curve(raw, {.colour = kGreen, .thickness = 1, .opacity = 0.28});
    plot.curve(curve, {.colour = kGreen, .thickness = 2});
    if (curve.size() == 1) plot.dots(curve, 3, {.colour = kGreen});
  }

 private:
  static double end_of(const History& history) {
    const RunStart& run = history.run();
    const double planned = run.steps_per_epoch > 0 ? run.epochs : static_cast<double>(run.steps);
    // During the first quarter of the run the axis ends at the current position; otherwise the curve would be a sliver at the
    // left.
    const double done = history.epochs_done();
    return planned > 0 && done > 0.25 * planned ? std::max(planned, done) : done > 0 ? done * 1.02 : 1;
  }

  Plot plot_of(const Area& area, const Scale& y, const std::string& title) {
    const bool of_epochs = history_.run().steps_per_epoch > 0;
    Plot plot(picture_, area, x_, y, {title, area.height >= kLarge ? axis_of(history_) : ""});
    if (of_epochs && x_.high() > 1 && x_.high() <= 60) {
      for (double epoch = 0; epoch < x_.high(); epoch += 2) plot.band(epoch, epoch + 1, kFaint, 0.05);
    }
    const double first = history_.first_not_finite();
    if (std::isfinite(first)) plot.mark(first, {.colour = kRed, .thickness = 1.25, .dashed = true});
    return plot;
  }

  const History& history_;
  Picture& picture_;
  Scale x_;
};

std::string value_text(double value, bool percent) {
  return !std::isfinite(value) ? "not finite" : percent ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4g}", value);
}

// "validate: loss 0.31, accuracy 91.20 % (best 91.50 % at epoch 28)"
std::string passes_text(const History& history, const std::string& primary) {
  std::string text;
  for (const auto& [graph, ignored] : history.figure(primary).passes) {
    text += fmt::format("{}{}: ", text.empty() ? "" : "   ·   ", graph);
    std::string list;
    for (const std::string& name : history.names()) {
      const FigureHistory& figure = history.figure(name);
      const auto found = figure.passes.find(graph);
      if (found == figure.passes.end()) continue;
      const FigureHistory::Passes& passes = found->second;
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, value_text(passes.last.y, figure.percent));
      const Point& best = figure.higher_is_better ? passes.highest : passes.lowest;
      if (name == primary) {
        list += fmt::format(" (best {} at {} {:.4g})", value_text(best.y, figure.percent), axis_of(history), best.x);
      }
    }
    text += list;
  }
  return text;
}

std::string progress_text(const History& history) {
  const RunStart& run = history.run();
  std::string text = fmt::format("{}   ·   ", run.file);
  if (run.steps_per_epoch > 0) text += fmt::format("epoch {:.4g} of {:.4g}   ·   ", history.epochs_done(), run.epochs);
  text += fmt::format("step {} of {}   ·   seed {}", whole_text(static_cast<double>(history.steps_done())),
                      whole_text(static_cast<double>(run.steps)), run.seed);
  if (run.replicas > 1) text += fmt::format("   ·   {} replicas", run.replicas);
  return text;
}

// The loss first, then metrics of correctness, then others in order of occurrence.
std::vector<std::string> sorted_names(const History& history) {
  std::vector<std::string> names = history.names();
  const auto rank = [&](const std::string& name) { return name == "loss" ? 0 : history.figure(name).percent ? 1 : 2; };
  std::stable_sort(names.begin(), names.end(), [&](const auto& x, const auto& y) { return rank(x) < rank(y); });
  return names;
}

double draw_heading(Picture& picture, const History& history, const std::string& state, const std::string& error,
                    const std::string& primary) {
  const double inner = kWidth - 2 * kMargin;
  const TextStyle right = {.size = kText, .colour = kFaint, .align = Align::right, .most = inner / 2};
  const double room = inner - extent_of(state, right).width - kBetween;
  double top = kMargin;
  picture.text({kMargin, top}, history.run().name, {.size = kHeading, .bold = true, .most = room});
  picture.text({kWidth - kMargin, top + 5}, state, right);
  top += line_height(kHeading) + 2;
  std::vector<std::pair<std::string, Colour>> lines = {{progress_text(history), kFaint}};
  if (!history.figure(primary).passes.empty()) lines.emplace_back(passes_text(history, primary), kFaint);
  if (std::isfinite(history.first_not_finite())) {
    lines.emplace_back(fmt::format("the loss is not finite from {} {:.4g} on", axis_of(history), history.first_not_finite()),
                       kRed);
  }
  if (!error.empty()) lines.emplace_back(error, kRed);
  for (const auto& [line, colour] : lines) {
    picture.text({kMargin, top}, line, {.size = kText, .colour = colour, .most = inner});
    top += line_height(kText) + 2;
  }
  return top + 14;
}

}  // namespace

Picture results_picture(const History& history, const std::string& state, const std::string& error) {
  const std::vector<std::string> names = sorted_names(history);
  const std::size_t large = std::min<std::size_t>(names.size(), 2);
  const std::string& primary = names[large - 1];
  std::vector<std::string> others(names.begin() + static_cast<std::ptrdiff_t>(large), names.end());
  const std::size_t series = (history.rate().empty() ? 0 : 1) + (history.speed().empty() ? 0 : 1);
  others.resize(std::min(others.size(), kMaxSmall - series));
  const std::size_t small = others.size() + series;

  Picture measured(kWidth, 10);  // measures the heading's lines
  const double top = draw_heading(measured, history, state, error, primary);
  Picture picture(kWidth, top + kLarge + (small > 0 ? kBetween / 2 + kSmall : 0) + kMargin);
  draw_heading(picture, history, state, error, primary);
  Chart chart(history, picture);
  const auto column = [](std::size_t i, std::size_t of, double y, double height) {
    const auto count = static_cast<double>(of);
    const double width = (kWidth - 2 * kMargin - (count - 1) * kBetween) / count;
    return Area{kMargin + static_cast<double>(i) * (width + kBetween), y, width, height};
  };
  for (std::size_t i = 0; i < large; ++i) chart.figure(names[i], column(i, large, top, kLarge));
  const double below = top + kLarge + kBetween / 2;
  std::size_t next = 0;
  for (const std::string& name : others) chart.figure(name, column(next++, small, below, kSmall));
  if (!history.rate().empty()) chart.series(history.rate(), "learning rate", column(next++, small, below, kSmall), false);
  if (!history.speed().empty()) chart.series(history.speed(), "images per second", column(next++, small, below, kSmall), true);
  return picture;
}

}  // namespace millrace::pictures
