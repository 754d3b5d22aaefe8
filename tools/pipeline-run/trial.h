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

// Listens to its run, and asks for the end of it when the question is answered. The answer is to be read when the run is over.
class Trial : public RunObserver {
 public:
  // What keys of the file become, as --set takes them. Throws Error(usage) for a pipeline that cannot be tried.
  virtual std::vector<std::string> overrides(const Pipeline& pipeline) const = 0;
  // Takes out of the loaded pipeline what is meant for a whole run: what ends it, what is written, and what counts epochs.
  virtual void shorten(Pipeline& pipeline) const;
  // Throws Error(usage) for a run that cannot answer the question.
  virtual void check(const PreparedRun&) {}
  virtual std::uint64_t most_steps() const = 0;
  // Multiplies the learning rate at a step from 0.
  virtual double rate_factor(std::uint64_t) const { return 1; }

  virtual bool succeeded() const = 0;
  virtual std::string text() const = 0;  // lines for the user
  // What is asked for beside the text, which was printed before; lines that name it.
  virtual std::string write_files() const { return {}; }

  // Shows how far the trial is on standard error, as a run does, unless the file turns that off. `pipeline`: without overrides().
  void show_progress(const Pipeline& pipeline);

  void start(const RunStart&, RunControl& control) override { control_ = &control; }
  void tick(const TickEvent& event) override;
  void end(const RunEnd&) override { progress_.reset(); }

 protected:
  virtual std::string progress() const = 0;  // what is known of the last step: "loss 2.31"
  void stop() { control_->stop(); }
  // The graph that is run. Throws Error(usage), with the option's name, where nobody reports its loss.
  static const GraphPlan& main_graph(const Pipeline& pipeline, const char* option);
  std::vector<std::string> common_overrides(const Pipeline& pipeline) const;
  static std::shared_ptr<const Loss> loss_in(const PreparedRun& prepared);  // that the graph reports; null: none
  // Throws Error(usage) where each image has the same label, which a network learns without looking at them.
  static void require_classes(const PreparedRun& prepared, const char* option);
  // The first loss is not finite.
  static std::string text_of_broken_start(double loss);
  static std::optional<double> loss_of(const StepEvent& event);

 private:
  RunControl* control_ = nullptr;
  std::optional<TrialProgress> progress_;
};

}  // namespace millrace
