// What [stop] and run.best make of the figures of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/communicator.h"
#include "millrace/run_events.h"
#include "run/build.h"
#include "run/requests.h"

namespace millrace {

// The best value of a figure so far. Better is what the figure itself says: higher or lower.
class FigureWatch {
 public:
  explicit FigureWatch(FigurePlan figure) : figure_(std::move(figure)) {}

  // A pass of `graph` had these figures when so many steps were done. Returns whether its value is better than all before; NaN is
  // never better. Passes of other graphs do not count.
  bool look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step);

  std::uint64_t passes_since_best() const { return passes_; }
  std::string text() const;  // "validate.accuracy has not improved for 5 passes; best 0.812 at step 400"

 private:
  const FigurePlan figure_;
  std::optional<double> best_;
  std::uint64_t best_step_ = 0, passes_ = 0;
};

// Throws Error(usage) where the graph is among `builds` and does not report the figure.
void require_figure(const FigurePlan& figure, const std::vector<std::unique_ptr<GraphBuild>>& builds);

// Asks for the end of a run, as [stop] has it, and says when its weights are the best so far. Of several processes the one with
// rank 0 decides, which alone has the figures of all.
class StopRules {
 public:
  static constexpr const char* kName = "[stop]";  // who asks

  StopRules(const Pipeline& pipeline, Group* group, Requests& requests);

  void look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step);  // at a pass
  void look_at_clock(double seconds);                                                           // since the run began
  // At the end of a step at which passes may have been made, when `goes_on` or after the last step. Every process calls it at the
  // same steps. Returns whether the weights are the best so far; the same in all processes.
  bool conclude(bool goes_on);

 private:
  void ask(std::string why);

  const StopPlan& plan_;
  Group* const group_;  // null: this process is alone
  Requests& requests_;
  std::optional<FigureWatch> best_, improving_;
  bool is_best_ = false;  // the newest value of run.best
  bool asked_ = false;
};

}  // namespace millrace
