// Short runs of the main graph that answer a question and write nothing: --overfit and --find-rate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/loss.h"
#include "millrace/observer.h"
#include "prepare/prepared_run.h"
#include "trial_progress.h"

namespace millrace {

// Observes its run, and requests its end when the question is answered. Read the answer when the run is over.
class Trial : public RunObserver {
 public:
  // Changed keys of the file, as for --set. Throws Error(usage) for an unsuitable pipeline.
  virtual std::vector<std::string> overrides(const Pipeline& pipeline) const = 0;
  // Removes settings for a whole run from the loaded pipeline: what ends it, output files, and whatever counts epochs.
  virtual void shorten(Pipeline& pipeline) const;
  // Throws Error(usage) for a run that cannot answer the question.
  virtual void check(const PreparedRun&) {}
  virtual std::uint64_t most_steps() const = 0;
  // Multiplies the learning rate at a step, from 0.
  virtual double rate_factor(std::uint64_t) const { return 1; }

  virtual bool succeeded() const = 0;
  virtual std::string text() const = 0;  // lines for the user
  // Writes requested files after the text was printed; returns lines that name them.
  virtual std::string write_files() const { return {}; }

  // Shows the trial's progress on standard error, like a run, unless the file disables that. `pipeline`: without overrides().
  void show_progress(const Pipeline& pipeline);

  void start(const RunStart&, RunControl& control) override { control_ = &control; }
  void tick(const TickEvent& event) override;
  void end(const RunEnd&) override { progress_.reset(); }

 protected:
  virtual std::string progress() const = 0;  // the state of the last step: "loss 2.31"
  void stop() { control_->stop(); }
  // The graph to run. Throws Error(usage), with the option's name, if nothing reports its loss.
  static const GraphPlan& main_graph(const Pipeline& pipeline, const char* option);
  std::vector<std::string> common_overrides(const Pipeline& pipeline) const;
  static std::shared_ptr<const Loss> loss_in(const PreparedRun& prepared);  // the loss that the graph reports; null if none
  // Throws Error(usage) if all images have the same label, which a network learns without using them.
  static void require_classes(const PreparedRun& prepared, const char* option);
  // The first loss is not finite.
  static std::string text_of_broken_start(double loss);
  static std::optional<double> loss_of(const StepEvent& event);

 private:
  RunControl* control_ = nullptr;
  std::optional<TrialProgress> progress_;
};

}  // namespace millrace
