#include "training_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "prepare/prepared_run.h"
#include "run/runner.h"

namespace millrace {
namespace {

constexpr const char* kFigure = "accuracy";

// Stops the run when it reaches the accuracy. The run calls it on one thread.
class AccuracyWatch final : public RunObserver {
 public:
  AccuracyWatch(double wanted, bool validates) : wanted_(wanted), validates_(validates) {}

  void start(const RunStart& event, RunControl& control) override {
    control_ = &control;
    begin_ = event.elapsed_seconds;
  }
  void epoch(const EpochEvent& event) override {
    if (!validates_) look(event.graph, event.figures, event.elapsed_seconds, static_cast<double>(event.epoch));
  }
  void pass(const PassEvent& event) override {
    if (event.best_step == 0) look(event.graph, event.figures, event.elapsed_seconds, event.epoch);
  }

  const std::vector<Validation>& validations() const { return validations_; }

 private:
  void look(const std::string& graph, const std::vector<Figure>& figures, double now, double epoch) {
    const auto found = std::ranges::find(figures, kFigure, &Figure::name);
    if (found == figures.end()) return;
    if (graph_.empty()) graph_ = graph;
    if (graph != graph_) return;
    validations_.push_back({now - begin_, epoch, found->value});
    if (found->value >= wanted_) control_->stop();
  }

  const double wanted_;
  const bool validates_;
  RunControl* control_ = nullptr;
  double begin_ = 0;
  std::string graph_;  // the first one with an accuracy
  std::vector<Validation> validations_;
};

}  // namespace

std::vector<Validation> train_to_accuracy(const ProfiledFile& what, const Registry& registry, double accuracy, Group* group) {
  std::vector<std::string> overrides = what.overrides;
  overrides.insert(overrides.end(), {"run.folder=", "observe.console.quiet=true"});
  Pipeline pipeline = load_pipeline(what.file, overrides, registry);
  pipeline.stop = {};
  RunOptions options;
  options.devices = what.devices;
  options.group = group;
  const auto watch = std::make_shared<AccuracyWatch>(accuracy, pipeline.graphs.size() > 1);
  options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, options);
  prepared->open_graphs();
  run_once(*prepared);
  if (options.is_first() && watch->validations().empty()) {
    fail(ErrorKind::usage, "--to-accuracy: '{}' counts no accuracy: its loss is not one of classes", what.file);
  }
  return watch->validations();
}

}  // namespace millrace
