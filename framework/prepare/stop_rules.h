// What [stop], [plateau] and run.best make of the figures of a run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/best.h"
#include "checkpoint/saved_state.h"
#include "config/plan.h"
#include "millrace/observer.h"
#include "millrace/util/group.h"
#include "report/requests.h"
#include "stages/build.h"

namespace millrace {

// The best value of a figure so far. Better is what the figure itself says: higher or lower.
class FigureWatch {
 public:
  explicit FigureWatch(FigurePlan figure, Threshold threshold = {}) : figure_(std::move(figure)), threshold_(threshold) {}

  // A pass of `graph` had these figures when so many steps were done. Returns whether its value is better than the best one by
  // the threshold, and is the best one now; NaN is never better. Passes of other graphs do not count.
  bool look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step);

  std::string name() const { return figure_.text(); }  // "validate.accuracy"
  std::uint64_t passes_since_best() const { return passes_; }
  SavedState::Watched state() const { return {best_, best_step_, passes_, cooldown_}; }
  void restore(const SavedState::Watched& state);
  // The count starts again after so many passes.
  void restart_count(std::uint64_t cooldown) {
    passes_ = 0;
    cooldown_ = cooldown;
  }
  std::string text() const;  // "validate.accuracy has not improved for 5 passes; best 0.812 at step 400"

 private:
  bool is_better(double value, bool higher_is_better) const;

  const FigurePlan figure_;
  const Threshold threshold_;
  std::optional<double> best_;
  std::uint64_t best_step_ = 0, passes_ = 0, cooldown_ = 0;
};

// Throws Error(usage) where the graph is among `builds` and does not report the figure. REQUIRES: their stages are made.
void require_figure(const FigurePlan& figure, const std::vector<std::unique_ptr<GraphBuild>>& builds);

// Asks for the end of a run, as [stop] has it, lowers its learning rate, as [plateau] has it, and says when its state is the
// best so far. Of several processes the one with rank 0 decides, which alone has the figures of all.
class StopRules {
 public:
  static constexpr const char *kName = "[stop]", *kBest = "run.best";  // who asks

  StopRules(const Pipeline& pipeline, Group* group, Requests& requests);

  // At a pass. Returns whether the weights are the best so far.
  bool look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step);
  void look_at_clock(double seconds);  // since the run began
  // At the end of a step at which passes may have been made: `done` steps are, and no later one has begun; `goes_on`: one will.
  // Every process calls it at the same steps. Returns whether the state of the run is the best so far, the same in all processes.
  bool conclude(std::uint64_t done, bool goes_on);

  // The best so far, in the process that has the figures.
  bool has_best() const { return best_ && best_->state().best; }
  // REQUIRES: has_best().
  Best best_found() const { return {best_->name(), best_->state().best_step, best_->state().best.value_or(0)}; }
  std::map<std::string, SavedState::Watched> state() const;
  // Restores a resumed run. One that had lost its patience is asked to end.
  void restore(const std::map<std::string, SavedState::Watched>& state);

 private:
  void ask_if_impatient();
  void lower_rate(std::uint64_t done);
  bool is_flat() const { return plateau_ && plateau_->passes_since_best() >= plateau_plan_.patience; }
  void ask(std::string why);

  const StopPlan& plan_;
  const PlateauPlan& plateau_plan_;
  Group* const group_;  // null: this process is alone
  Requests& requests_;
  std::optional<FigureWatch> best_, improving_, plateau_;  // of best_figure(), [stop], [plateau]
  bool is_best_ = false;                                   // the newest value of best_
  bool asked_ = false;
};

}  // namespace millrace
