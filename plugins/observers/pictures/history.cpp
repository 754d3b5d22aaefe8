#include "history.h"

#include <algorithm>
#include <cmath>

namespace millrace::pictures {

std::vector<Point> smoothed(std::vector<Point> points) {
  const double half_life = std::max(1.0, static_cast<double>(points.size()) / 40);
  const double keep = std::exp2(-1 / half_life);
  double sum = 0, weight = 0;
  for (Point& point : points) {
    if (!std::isfinite(point.y)) continue;
    sum = keep * sum + point.y;
    weight = keep * weight + 1;
    point.y = sum / weight;
  }
  return points;
}

double History::place(std::uint64_t step) const {
  return run_.steps_per_epoch > 0 ? static_cast<double>(step) / static_cast<double>(run_.steps_per_epoch)
                                  : static_cast<double>(step);
}

std::vector<Point> History::points(const Course& course) const {
  std::vector<Point> points;
  for (const Course::Point& point : course.points()) {
    points.push_back({place(point.step), point.finite > 0 ? point.sum / static_cast<double>(point.finite) : NAN});
  }
  return points;
}

FigureHistory& History::figure_of(const Figure& figure) {
  const auto [found, is_new] = figures_.try_emplace(figure.name);
  if (is_new) names_.push_back(figure.name);
  found->second.percent |= figure.percent;  // metrics.jsonl of earlier versions lacks it
  found->second.higher_is_better |= figure.higher_is_better;
  return found->second;
}

void History::start(const RunStart& e) { run_ = e; }

void History::step(const StepEvent& e) {
  steps_done_ = e.step;
  epochs_done_ = place(e.step);
  elapsed_seconds_ = e.elapsed_seconds;
  for (const Figure& figure : e.figures) {
    figure_of(figure).steps.add(e.step, figure.value);
    if (figure.name == "loss" && !std::isfinite(figure.value) && std::isnan(first_not_finite_)) first_not_finite_ = epochs_done_;
  }
  for (const auto& [name, value] : e.scalars) {
    if (name == "learning_rate") rate_.add(e.step, value);
  }
  if (e.reported) speed_.add(e.step, e.images_per_second);
}

void History::epoch(const EpochEvent& e) {
  steps_done_ = e.step;
  epochs_done_ = place(e.step);
  elapsed_seconds_ = e.elapsed_seconds;
  for (const Figure& figure : e.figures) {
    if (!figure.is_detail) figure_of(figure).epochs.add(e.step, figure.value);
  }
}

void History::pass(const PassEvent& e) {
  elapsed_seconds_ = e.elapsed_seconds;
  if (!e.reported) return;
  for (const Figure& figure : e.figures) {
    if (figure.is_detail) continue;
    const std::uint64_t of = e.best_step != 0 ? e.best_step : e.step;
    const Point now = {place(of), figure.value};
    FigureHistory::Passes& passes = figure_of(figure).passes[e.graph];
    if (passes.all.empty()) passes.lowest = passes.highest = now;
    if (e.best_step == 0 || passes.all.empty()) passes.all.add(of, now.y);
    passes.last = now;
    if (now.y < passes.lowest.y || !std::isfinite(passes.lowest.y)) passes.lowest = now;
    if (now.y > passes.highest.y || !std::isfinite(passes.highest.y)) passes.highest = now;
  }
}

void History::read(const std::filesystem::path& metrics, const ResumedAt& at) {
  send_earlier_events(metrics, at,
                      {.step = [this](const StepEvent& event) { step(event); },
                       .epoch = [this](const EpochEvent& event) { epoch(event); },
                       .pass = [this](const PassEvent& event) { pass(event); }});
}

}  // namespace millrace::pictures
