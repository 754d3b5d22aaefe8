#include "history.h"

#include <algorithm>
#include <cmath>

#include "millrace/util/retold.h"

namespace millrace::pictures {

Point Series::Mean::point() const {
  return {x / static_cast<double>(count), finite > 0 ? sum / static_cast<double>(finite) : NAN};
}

void Series::add(double x, double value) {
  pending_.x += x;
  ++pending_.count;
  if (std::isfinite(value)) {
    pending_.sum += value;
    ++pending_.finite;
  }
  if (pending_.count < stride_) return;
  points_.push_back(pending_.point());
  pending_ = {};
  if (points_.size() >= kMost) halve();
}

void Series::cut(double x) {
  while (!points_.empty() && points_.back().x > x) points_.pop_back();
  pending_ = {};
}

void Series::halve() {
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
    const Point &a = points_[i], &b = points_[i + 1];
    const double y = !std::isfinite(a.y) ? b.y : !std::isfinite(b.y) ? a.y : (a.y + b.y) / 2;
    points_[i / 2] = {(a.x + b.x) / 2, y};
  }
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

std::vector<Point> Series::points() const {
  std::vector<Point> all = points_;
  if (pending_.count > 0) all.push_back(pending_.point());
  return all;
}

std::vector<Point> Series::smoothed() const {
  std::vector<Point> all = points();
  const double half_life = std::max(1.0, static_cast<double>(all.size()) / 40);
  const double keep = std::exp2(-1 / half_life);
  double sum = 0, weight = 0;
  for (Point& point : all) {
    if (!std::isfinite(point.y)) continue;  // the gap stays
    sum = keep * sum + point.y;
    weight = keep * weight + 1;
    point.y = sum / weight;
  }
  return all;
}

// What is left of the passes, in place of what was told of those behind: they are made again.
void FigureHistory::Passes::cut(double x) {
  all.cut(x);
  const std::vector<Point> left = all.points();
  if (left.empty()) return;
  last = lowest = highest = left.front();
  for (const Point& point : left) {
    last = point;
    if (point.y < lowest.y || !std::isfinite(lowest.y)) lowest = point;
    if (point.y > highest.y || !std::isfinite(highest.y)) highest = point;
  }
}

double History::place(std::uint64_t step) const {
  return run_.steps_per_epoch > 0 ? static_cast<double>(step) / static_cast<double>(run_.steps_per_epoch)
                                  : static_cast<double>(step);
}

FigureHistory& History::figure_of(const Figure& figure) {
  const auto [found, is_new] = figures_.try_emplace(figure.name);
  if (is_new) names_.push_back(figure.name);
  found->second.percent |= figure.percent;  // a line of metrics.jsonl does not tell
  found->second.higher_is_better |= figure.higher_is_better;
  return found->second;
}

void History::start(const RunStart& e) { run_ = e; }

void History::step(const StepEvent& e) {
  steps_done_ = e.step;
  epochs_done_ = place(e.step);
  elapsed_seconds_ = e.elapsed_seconds;
  for (const Figure& figure : e.figures) {
    figure_of(figure).steps.add(epochs_done_, figure.value);
    if (figure.name == "loss" && !std::isfinite(figure.value) && std::isnan(first_not_finite_)) first_not_finite_ = epochs_done_;
  }
  for (const auto& [name, value] : e.scalars) {
    if (name == "learning_rate") rate_.add(epochs_done_, value);
  }
  if (e.reported) speed_.add(epochs_done_, e.images_per_second);
}

void History::epoch(const EpochEvent& e) {
  steps_done_ = e.step;
  epochs_done_ = place(e.step);
  elapsed_seconds_ = e.elapsed_seconds;
  for (const Figure& figure : e.figures) figure_of(figure).epochs.add(epochs_done_, figure.value);
}

void History::pass(const PassEvent& e) {
  elapsed_seconds_ = e.elapsed_seconds;
  if (!e.reported) return;
  for (const Figure& figure : e.figures) {
    const Point now = {place(e.best_step != 0 ? e.best_step : e.step), figure.value};
    FigureHistory::Passes& passes = figure_of(figure).passes[e.graph];
    if (passes.all.empty()) passes.lowest = passes.highest = now;
    if (e.best_step == 0 || passes.all.empty()) passes.all.add(now.x, now.y);
    passes.last = now;
    if (now.y < passes.lowest.y || !std::isfinite(passes.lowest.y)) passes.lowest = now;
    if (now.y > passes.highest.y || !std::isfinite(passes.highest.y)) passes.highest = now;
  }
}

void History::cut(std::uint64_t step) {
  const double x = place(step);
  for (auto& [name, figure] : figures_) {
    figure.steps.cut(x);
    figure.epochs.cut(x);
    for (auto& [graph, passes] : figure.passes) passes.cut(x);
    std::erase_if(figure.passes, [](const auto& each) { return each.second.all.empty(); });
  }
  rate_.cut(x);
  speed_.cut(x);
  steps_done_ = std::min(steps_done_, step);
  epochs_done_ = std::min(epochs_done_, x);
  if (first_not_finite_ > x) first_not_finite_ = std::numeric_limits<double>::quiet_NaN();
}

void History::read(const std::filesystem::path& metrics, std::uint64_t first_step) {
  retell(metrics, first_step,
         {.step = [this](const StepEvent& event) { step(event); },
          .epoch = [this](const EpochEvent& event) { epoch(event); },
          .pass = [this](const PassEvent& event) { pass(event); },
          .resume = [this](std::uint64_t step) { cut(step); }});
}

}  // namespace millrace::pictures
