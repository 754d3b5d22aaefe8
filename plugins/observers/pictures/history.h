// A run's history so far, in as many points as a picture shows.
#pragma once

#include <picture.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/util/course.h"
#include "millrace/util/earlier_events.h"

namespace millrace::pictures {

using drawing::Point;

// Exponential means whose half-life is a fortieth of the points. Gaps stay.
std::vector<Point> smoothed(std::vector<Point> points);

// One metric: over the training's steps and epochs, and over each other graph's passes.
struct FigureHistory {
  bool percent = false, higher_is_better = false;
  Course steps, epochs;
  struct Passes {
    Course all;
    Point last, lowest, highest;
  };
  std::map<std::string, Passes> passes;  // by graph
};

class History {
 public:
  void start(const RunStart& e);
  void step(const StepEvent& e);
  void epoch(const EpochEvent& e);
  void pass(const PassEvent& e);
  // Reads the steps of metrics.jsonl that are still valid: a resumed run continues its picture. A missing file adds nothing.
  void read(const std::filesystem::path& metrics, const ResumedAt& at);

  const RunStart& run() const { return run_; }
  const std::vector<std::string>& names() const { return names_; }  // metrics, in order of first occurrence
  const FigureHistory& figure(const std::string& name) const { return figures_.at(name); }
  const Course& rate() const { return rate_; }
  const Course& speed() const { return speed_; }
  double epochs_done() const { return epochs_done_; }
  std::uint64_t steps_done() const { return steps_done_; }
  double elapsed_seconds() const { return elapsed_seconds_; }
  double first_not_finite() const { return first_not_finite_; }  // the epoch of the first non-finite loss; NaN if none
  double place(std::uint64_t step) const;                        // position on the axis, in epochs
  std::vector<Point> points(const Course& course) const;         // positions on the axis; NaN for points without a value

 private:
  FigureHistory& figure_of(const Figure& figure);

  RunStart run_;
  std::vector<std::string> names_;
  std::map<std::string, FigureHistory> figures_;
  Course rate_, speed_;
  double epochs_done_ = 0, elapsed_seconds_ = 0, first_not_finite_ = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t steps_done_ = 0;
};

}  // namespace millrace::pictures
