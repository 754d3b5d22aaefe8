// What a run has told so far, in as many points as a picture shows.
#pragma once

#include <picture.h>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "millrace/observer.h"

namespace millrace::pictures {

using drawing::Point;

// Values over a growing x in constant memory: when there are too many, each point becomes the mean of more of them. A value that
// is not finite counts in no mean; a point without a finite value is a gap.
class Series {
 public:
  void add(double x, double value);
  void cut(double x);  // forgets what lies behind
  bool empty() const { return points_.empty() && pending_.count == 0; }
  std::vector<Point> points() const;
  // Exponential means, whose half-life is a fortieth of the points.
  std::vector<Point> smoothed() const;

 private:
  static constexpr std::size_t kMost = 2000;
  struct Mean {
    double x = 0, sum = 0;
    std::size_t count = 0, finite = 0;
    Point point() const;
  };
  void halve();

  std::vector<Point> points_;
  std::size_t stride_ = 1;  // values in a point
  Mean pending_;
};

// One figure: of the training's steps and epochs, and of each other graph's passes.
struct FigureHistory {
  bool percent = false, higher_is_better = false;
  Series steps, epochs;
  struct Passes {
    Series all;
    Point last, lowest, highest;
    void cut(double x);
  };
  std::map<std::string, Passes> passes;  // by graph
};

class History {
 public:
  void start(const RunStart& e);
  void step(const StepEvent& e);
  void epoch(const EpochEvent& e);
  void pass(const PassEvent& e);
  // What metrics.jsonl tells of the steps before `first_step`: a run that resumes goes on with its picture. A file that is not
  // there, or that another version wrote, gives what it gives.
  void read(const std::filesystem::path& metrics, std::uint64_t first_step);

  const RunStart& run() const { return run_; }
  const std::vector<std::string>& names() const { return names_; }  // of the figures, in the order of their coming
  const FigureHistory& figure(const std::string& name) const { return figures_.at(name); }
  const Series& rate() const { return rate_; }
  const Series& speed() const { return speed_; }
  double epochs_done() const { return epochs_done_; }
  std::uint64_t steps_done() const { return steps_done_; }
  double elapsed_seconds() const { return elapsed_seconds_; }
  double first_not_finite() const { return first_not_finite_; }  // the epoch of the first loss that is not finite; NaN: none
  double place(std::uint64_t step) const;                        // on the axis: epochs

 private:
  FigureHistory& figure_of(const Figure& figure);
  void cut(std::uint64_t step);

  RunStart run_;
  std::vector<std::string> names_;
  std::map<std::string, FigureHistory> figures_;
  Series rate_, speed_;
  double epochs_done_ = 0, elapsed_seconds_ = 0, first_not_finite_ = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t steps_done_ = 0;
};

}  // namespace millrace::pictures
