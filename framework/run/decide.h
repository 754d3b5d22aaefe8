// All rules of a run: decide() maps an event to the next state and to actions. Pure: no clocks, threads or files.
//
//   Runner: event -> decide() -> new state, actions -> Runner executes them -> event ...
//
// A run is a sequence of *boundaries*: steps after which the main graph stands still. At a boundary the other graphs that are due
// run, the rules decide about the best weights and the learning rate, and weights and checkpoints are saved. A run that [stop] or
// an observer ends is *closed*: the rest of its evaluation runs. A run that a signal ends is not closed, since it will be
// resumed.
//
// Events are local or agreed. In a run of several processes each has its own Runner, and all receive the same agreed events
// between the same steps. Only these change what processes share. Local events make requests (Ask), which become agreed events,
// or concern this process's gate alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/saved_state.h"
#include "config/every.h"
#include "config/stop_plan.h"
#include "millrace/observer.h"
#include "weights/best_weights.h"

namespace millrace {

inline constexpr const char *kStopRule = "[stop]", *kBestRule = "run.best", *kPlateauRule = "[plateau]";  // RequestEvent::by

// What is fixed before a run begins.
struct RunRules {
  std::string graph;                                      // the main graph
  std::uint64_t first = 0, end = 0, steps_per_epoch = 1;  // the main graph does steps [first, end), counted from 0
  std::uint64_t batch_size = 0;                           // its global batch
  bool is_shortened = false;                              // [stop] max_steps ends the run before its schedule
  bool trains = true;                                     // false: the run is one pass over the main graph
  bool is_alone = true, is_first = true;                  // one process; rank 0, which has all metrics and writes files
  bool has_folder = false;                                // the run writes weights
  bool writes_checkpoints = false, exports_best = false;  // exports_best: [run] best
  bool rolls_back = false;                                // [run] on_nan = "rollback"
  std::uint64_t compare_every = 0;                        // steps between comparisons of replicas' weights; 0: never
  Every checkpoint;                                       // [checkpoint] every
  std::optional<FigurePlan> best;                         // of [run] best or [checkpoint] best
  StopPlan stop;
  PlateauPlan plateau;

  struct Other {
    std::string graph;
    Every when;
    bool is_tried = false, writes_predictions = false;
  };
  std::vector<Other> others;  // graphs 1, 2, ...; the main graph is 0

  bool keeps_best() const { return best && has_folder; }
  bool is_due(std::size_t other, std::uint64_t done) const;
  bool is_boundary(std::uint64_t done) const;
  bool ends_epoch(std::uint64_t done) const { return done % steps_per_epoch == 0 || done == end; }
};

// The best value of a metric so far.
struct MetricWatch : SavedState::Watched {
  // Counts a pass with these metrics after `step`. Returns whether its value is better than the best one by the threshold, and is
  // the best one now. NaN is never better. Ignores passes that lack the metric.
  bool observe(const FigurePlan& plan, const Threshold& threshold, const std::string& graph, const std::vector<Figure>& metrics,
               std::uint64_t step);
  std::string text(const FigurePlan& plan,
                   const Threshold& threshold) const;  // "validate.loss has not improved for 5 passes; ..."
};

// What the rules of a run read. The values of an initial state are made by begin().
struct RunState {
  enum class Phase {
    ready,      // nothing has happened
    beginning,  // [stop] requests the end at once
    trying,     // another graph runs two steps
    settling,   // devices finish the steps that were submitted
    passes,     // another graph runs
    measuring,  // it has run
    asking,     // [stop] requests the end
    agreeing,   // on what rank 0 has decided
    placing,    // the best weights into the replicas
    saving,     // a checkpoint
    steps,      // the main graph runs
    draining,   // the main graph was stopped, or has done its last step
    ended,
  };
  // What the phases from settling to saving belong to.
  enum class Part {
    owed,  // what a resumed run has left to do before its first step
    boundary,
    close,  // the end of a run that is over before its last step
    last,   // the last checkpoint of a run that was stopped
  };
  Phase phase = Phase::ready;
  Part part = Part::owed;

  std::uint64_t done = 0;                        // steps, when the main graph last stood still
  std::uint64_t begun_with = 0;                  // the first step of the run, resumed or not, counted in batches of today
  std::uint64_t processed = 0;                   // the newest step whose boundary is finished; at the beginning the first step
  bool has_started = false, is_drained = false;  // the main graph
  bool epoch_is_over = false;                    // in a resumed run: larger batches leave no step of the epoch
  bool is_over = false;                          // closed without a signal, or all that was due has run: if it is resumed and
                                                 // stopped before its first step, it ends without another close

  MetricWatch best, improving, plateau;  // of RunRules::best, [stop] and [plateau]
  std::optional<std::uint64_t> best_at;  // best.best_step, if it counts today's batches
  bool has_improved = false;             // `best`, since the last verdict
  bool is_best = false;                  // the last verdict
  double rate = 1;                       // factor of the learning rate

  struct Waiting {
    RequestEvent request;
    std::uint64_t from = 0;  // in force when so many steps are done
  };
  std::vector<Waiting> waiting;                // by `from`
  std::vector<RequestEvent> validating;        // for which the passes under way run
  std::vector<RequestEvent> checkpointing;     // for which the checkpoint under way is written
  std::optional<RequestEvent> stop;            // ends the run
  std::optional<RequestEvent> ending;          // the same while the run is closed: `stop` would be another one
  bool has_asked = false, has_signal = false;  // [stop], and a signal, have requested the end

  std::size_t next_try = 0;                   // other graph
  std::optional<std::size_t> running;         // graph
  bool was_stopped = false;                   // that graph, before its last step
  std::vector<std::size_t> due, waiting_for_best;  // graphs that run now, and those that wait for the best weights
  std::vector<std::size_t> again;             // those that run once more, with the best weights
  std::vector<std::size_t> left;              // graphs that were due, and the run was stopped before them
  std::vector<std::size_t> left_before;       // the same before the passes with the best weights
  bool owes_again = false;                    // `again` was due after the last step, and the run was stopped before all had run
  bool runs_best_passes = false;              // the passes under way have the best weights
  std::uint64_t best_in_place = 0;            // step of the best weights, while replicas hold them; 0: they hold the last ones
  std::optional<std::uint64_t> rewritten;     // the step after which `again` was complete
  std::optional<std::uint64_t> checkpointed;  // steps done in the newest checkpoint
  std::string held_by;                        // the observer that the gate is closed for

  bool has_best() const { return best.best.has_value(); }
  // A signal breaks off the pass under way. Any other stop lets it finish, since half of one measures nothing, and skips those
  // after it.
  bool breaks_off(const RunRules& rules) const { return stop && (stop->signal != 0 || !rules.trains); }
};

// REQUIRES: state.has_best().
Best best_so_far(const RunRules& rules, const RunState& state);
// The state before the first event. `saved`: of the checkpoint that the run resumes from; null: it begins.
RunState begin(const RunRules& rules, const SavedState* saved);
// What a checkpoint after `state.done` steps saves of it.
void save(const RunRules& rules, const RunState& state, SavedState& saved);
// The first step of a resumed run, counted in batches of today.
std::uint64_t first_step_before(const SavedState& saved, std::uint64_t batch_size, std::uint64_t steps_per_epoch);
// Whether a run that has failed prepares again and resumes from an older state, with a smaller learning rate.
bool rolls_back(const RunRules& rules, bool number_is_wrong, bool has_checkpoint);

namespace event {
// Local.
struct Began {};  // observers have started
struct Ticked {
  double seconds = 0;  // since the run began
};
struct Signal {
  int signal = 0;
};
struct CheckpointDue {
  std::string by;  // "[checkpoint]", by time; "a signal"
};
struct Behind {
  std::string observer;  // its gate was closed
};
struct CaughtUp {};
// Agreed.
struct Requested {
  RequestEvent request;
  std::uint64_t from = 0;  // steps done; 0: at once
};
struct Reached {  // the horizon
  std::uint64_t done = 0;
};
struct Drained {
  std::size_t graph = 0;
  std::uint64_t done = 0;  // steps of the main graph
};
// Results of actions.
struct Tried {};
struct Asked {};
struct Settled {
  std::vector<Figure> metrics;  // of the epoch, if it has ended
};
struct PassEnded {
  std::vector<Figure> metrics;
};
struct Verdict {
  bool is_best = false, is_flat = false;
};
struct BestInPlace {
  std::uint64_t step = 0;  // of the weights; 0: replicas keep the last ones
};
struct CheckpointMade {
  bool was_left_out = false;
};
struct Failed {
  bool saves_nothing = false;  // a device, memory or a number is at fault, or no pass was under way
};
}  // namespace event

using RunEvent = std::variant<event::Began, event::Ticked, event::Signal, event::CheckpointDue, event::Behind, event::CaughtUp,
                              event::Requested, event::Reached, event::Drained, event::Tried, event::Asked, event::Settled,
                              event::PassEnded, event::Verdict, event::BestInPlace, event::CheckpointMade, event::Failed>;

namespace action {
// The comment names the event that the Runner answers with; without one, none answers.
struct TryGraph {
  std::size_t graph = 0;
};  // Drained
struct EndTry {
  std::size_t graph = 0;
};                        // Tried
struct StartTraining {};  // Reached, Drained
struct SetHorizon {
  std::uint64_t step = 0;
};
struct GoOn {};  // the main graph computes from here on
struct StopGraph {
  std::size_t graph = 0;
};
struct FinishTraining {};  // the main graph is drained, and does not start again
struct Settle {
  bool ends_epoch = false;
};  // Settled
struct CompareWeights {};
struct Flush {};  // observers
struct RunPass {
  std::size_t graph = 0;
  bool is_averaged = false;  // with the weights that other graphs see
};                           // Drained
struct MeasurePass {
  std::size_t graph = 0;
  std::uint64_t best_step = 0;  // the replicas hold the best weights, of this step; 0: the last ones
};                              // PassEnded
struct Ask {
  RequestEvent request;
};  // Asked
struct Complete {
  RequestEvent request;
  std::string text;
};
struct Refuse {
  RequestEvent request;
  std::string why;
};
struct SetRate {
  double factor = 1;  // from the next step on
};
struct Agree {
  bool is_best = false, is_flat = false;  // rank 0's count
};                                        // Verdict
struct SaveBest {};                       // from the replicas
struct RetryBest {};                      // those that could not be written
struct PutBest {
  std::optional<Best> best;  // empty if this process has no better weights than the last ones
};                           // BestInPlace
struct SaveWeights {
  RequestEvent request;
};  // which it completes or refuses
struct Checkpoint {
  bool is_best = false;
  bool may_be_left_out = false;  // after attempts that failed
};                               // CheckpointMade
struct OpenGate {};              // an observer has caught up
struct RescueWeights {};         // the run has failed in a pass
struct Fail {};
struct End {};
}  // namespace action

using Action = std::variant<action::TryGraph, action::EndTry, action::StartTraining, action::SetHorizon, action::GoOn,
                            action::StopGraph, action::FinishTraining, action::Settle, action::CompareWeights, action::Flush,
                            action::RunPass, action::MeasurePass, action::Ask, action::Complete, action::Refuse, action::SetRate,
                            action::Agree, action::SaveBest, action::RetryBest, action::PutBest, action::SaveWeights,
                            action::Checkpoint, action::OpenGate, action::RescueWeights, action::Fail, action::End>;
using Actions = std::vector<Action>;

struct Decision {
  RunState state;
  Actions actions;  // executed in this order
};

Decision decide(const RunRules& rules, RunState state, RunEvent event);

}  // namespace millrace
