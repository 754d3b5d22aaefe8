#include "prepare/stop_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "millrace/error.h"
#include "millrace/loss.h"
#include "report/class_figures.h"

namespace millrace {

bool FigureWatch::look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step) {
  if (graph != figure_.graph) return false;
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& each) { return each.name == figure_.name; });
  if (found == figures.end()) return false;
  const double value = found->value;
  if (cooldown_ > 0) {
    --cooldown_;
  } else {
    ++passes_;
  }
  if (!is_better(value, found->higher_is_better)) return false;
  best_ = value;
  best_step_ = step;
  passes_ = 0;
  return true;
}

bool FigureWatch::is_better(double value, bool higher_is_better) const {
  if (!best_ || !std::isfinite(value)) return std::isfinite(value);
  const double least = threshold_.least * (threshold_.is_relative ? std::abs(*best_) : 1);
  return higher_is_better ? value > *best_ + least : value < *best_ - least;
}

void FigureWatch::restore(const SavedState::Watched& state) {
  best_ = state.best;
  best_step_ = state.best_step;
  passes_ = state.passes;
  cooldown_ = state.cooldown;
}

std::string FigureWatch::text() const {
  const std::string best = best_ ? fmt::format("; best {:.4g} at step {}", *best_, best_step_) : std::string();
  std::string least;
  if (threshold_.least > 0) {
    least = threshold_.is_relative ? fmt::format(" by {:.4g} %", 100 * threshold_.least)
                                   : fmt::format(" by {:.4g}", threshold_.least);
  }
  return fmt::format("{} has not improved{} for {} pass{}{}", figure_.text(), least, passes_, passes_ == 1 ? "" : "es", best);
}

namespace {

// A metric of a class without a sample would never come.
void require_samples(const FigurePlan& figure, const GraphBuild& build, std::size_t c) {
  const std::vector<std::uint64_t>& counts = build.data().class_counts;
  if (c >= counts.size() || counts[c] > 0) return;
  fail(ErrorKind::usage, "{}: [{}] has no image of class '{}', so that '{}' would never be known", to_string(figure.at),
       figure.graph, build.data().classes[c], figure.name);
}

}  // namespace

void require_figure(const FigurePlan& figure, const std::vector<std::unique_ptr<GraphBuild>>& builds) {
  for (const auto& build : builds) {
    if (build->plan().name != figure.graph) continue;
    std::vector<std::string> names = build->figures();
    if (std::find(names.begin(), names.end(), figure.name) != names.end()) return;
    const std::vector<std::string> classes = build->counted_classes();
    if (const auto c = class_of_figure(figure.name, classes)) return require_samples(figure, *build, *c);
    if (names.empty()) {
      fail(ErrorKind::usage, "{}: [{}] reports no figures; put 'metrics' into its flow", to_string(figure.at), figure.graph);
    }
    const std::string reported = fmt::format(
        "it reports {}{}", fmt::join(names, ", "),
        classes.empty() ? "" : fmt::format(", and recall, precision, f1 and iou of a class, as 'recall.{}'", classes[0]));
    std::ranges::move(names_of_class_figures(classes), std::back_inserter(names));
    const auto nearest = nearest_name(figure.name, names);
    fail(ErrorKind::usage, "{}: [{}] has no figure '{}'; {}{}", to_string(figure.at), figure.graph, figure.name,
         nearest ? fmt::format("nearest is '{}'; ", *nearest) : "", reported);
  }
}

StopRules::StopRules(const Pipeline& pipeline, Group* group, Requests& requests)
    : plan_(pipeline.stop), plateau_plan_(pipeline.plateau), group_(group), requests_(requests) {
  const std::optional<FigurePlan>& best = best_figure(pipeline);
  if (best && !pipeline.run.folder.empty()) best_.emplace(*best);
  if (plan_.figure) improving_.emplace(*plan_.figure, plan_.threshold);
  if (plateau_plan_.figure) plateau_.emplace(*plateau_plan_.figure, plateau_plan_.threshold);
}

bool StopRules::look(const std::string& graph, const std::vector<Figure>& figures, std::uint64_t step) {
  const bool is_better = best_ && best_->look(graph, figures, step);
  is_best_ = is_best_ || is_better;
  if (improving_) improving_->look(graph, figures, step);
  if (plateau_) plateau_->look(graph, figures, step);
  return is_better;
}

void StopRules::look_at_clock(double seconds) {
  if (plan_.max_seconds > 0 && seconds >= plan_.max_seconds) ask(fmt::format("max_time is over, {}", duration_text(seconds)));
}

bool StopRules::conclude(std::uint64_t done, bool goes_on) {
  if (goes_on) ask_if_impatient();
  bool is_best = std::exchange(is_best_, false);
  bool flat = goes_on && is_flat();
  if ((best_ || plateau_) && group_ != nullptr) {
    std::vector<std::byte> verdicts;
    for (const bool verdict : {is_best, flat}) verdicts.push_back(verdict ? std::byte{1} : std::byte{0});
    group_->broadcast(Group::kRun, 0, verdicts);
    is_best = verdicts[0] != std::byte{0};
    flat = verdicts[1] != std::byte{0};
  }
  if (flat) lower_rate(done);
  return is_best;
}

// From the next step on. A factor that is lower than the least one already, because somebody asked for it, stays.
void StopRules::lower_rate(std::uint64_t done) {
  const double now = requests_.factor(done), factor = std::max(now * plateau_plan_.factor, plateau_plan_.min_factor);
  if (factor < now) requests_.set_factor(done, factor);
  if (factor < now && (group_ == nullptr || group_->rank() == 0)) {
    requests_.complete({.kind = RequestKind::rate_factor, .by = "[plateau]", .factor = factor, .text = {}}, done,
                       plateau_->text());
  }
  plateau_->restart_count(plateau_plan_.cooldown);
}

std::map<std::string, SavedState::Watched> StopRules::state() const {
  std::map<std::string, SavedState::Watched> state;
  if (best_) state[best_key(best_->name())] = best_->state();
  if (improving_) state[fmt::format("stop.figure {}", improving_->name())] = improving_->state();
  if (plateau_) state[fmt::format("plateau.figure {}", plateau_->name())] = plateau_->state();
  return state;
}

void StopRules::restore(const std::map<std::string, SavedState::Watched>& state) {
  const auto restore = [&](std::optional<FigureWatch>& watch, const std::string& key) {
    const auto found = watch ? state.find(fmt::format("{} {}", key, watch->name())) : state.end();
    if (found != state.end()) watch->restore(found->second);
  };
  for (const char* key : {"checkpoint.best", kBest}) restore(best_, key);  // the first one is of earlier versions
  restore(improving_, "stop.figure");
  restore(plateau_, "plateau.figure");
  ask_if_impatient();
}

void StopRules::ask_if_impatient() {
  if (improving_ && improving_->passes_since_best() >= plan_.patience) ask(improving_->text());
}

void StopRules::ask(std::string why) {
  if (group_ != nullptr && group_->rank() != 0) return;
  if (!std::exchange(asked_, true)) requests_.ask({.kind = RequestKind::stop, .by = kName, .text = std::move(why)});
}

}  // namespace millrace
