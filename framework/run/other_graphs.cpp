#include "run/other_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "millrace/error.h"
#include "run/beside.h"
#include "run/best_exchange.h"

namespace millrace {
namespace {

constexpr std::uint64_t kTrialSteps = 2;  // of each other graph, before the first epoch

}  // namespace

void start_graph(const RunContext& run, std::size_t graph, std::uint64_t first, std::uint64_t last) {
  if (!run.barriers.empty()) run.barriers[graph]->start(first);
  run.graph(graph).start(first, last);
}

std::string status_of(const RunContext& run, std::size_t graph) {
  const std::string text = text_of(run.graph(graph).standing(), run.builds()[graph]->plan().name);
  return run.options().group == nullptr ? text : fmt::format("rank {}: {}", run.options().group->rank(), text);
}

void watch_graph(const RunContext& run, std::size_t index, StallWatch& stall, bool is_stopping) {
  const Graph& graph = run.graph(index);
  const std::string& name = run.builds()[index]->plan().name;
  if (is_stopping) return run.doing("the steps under way: " + text_of(graph.standing(), name));
  if (const std::string text = stall.look(graph, name); !text.empty()) run.log().warn(text);
}

OtherGraphs::OtherGraphs(const RunContext& run, StopRequest& stop, RunMeter& meter) : run_(run), stop_(stop), meter_(meter) {
  for (const auto& build : run_.builds()) every_.push_back(build->plan().when);
}

void OtherGraphs::try_all() {
  if (run_.steps().first >= run_.steps().end) return;
  run_.log().set_dry_run(true);
  for (std::size_t g = 1; g < run_.builds().size() && !stop_.look(); ++g) {
    const GraphPlan& plan = run_.builds()[g]->plan();
    if (plan.before) try_one(g);
  }
  run_.log().set_dry_run(false);
}

void OtherGraphs::try_one(std::size_t graph) {
  const GraphBuild& build = *run_.builds()[graph];
  const std::string& name = build.plan().name;
  run_.doing(fmt::format("the first batches of [{}]", name));
  const std::uint64_t steps = std::min(kTrialSteps, build.data().steps_per_epoch());
  try {
    drive(graph, 0, steps);
    require_usable_samples(build);
  } catch (...) {
    run_.found().bad_samples.tell_held();
    throw current_error().in(fmt::format("before the first step, [{}] was tried", name));
  }
  if (!run_.barriers.empty() && has_reports(build.plan()) && !is_broken_off(graph)) meter_.await_others(name, 0, steps);
}

// A graph whose samples are all bad would have no figures. REQUIRES: it was tried.
void OtherGraphs::require_usable_samples(const GraphBuild& build) const {
  const GraphData& data = build.data();
  if (run_.options().group != nullptr || data.samples_per_epoch == 0) return;
  if (run_.found().bad_samples.held(build.plan().name) < data.samples_per_epoch) return;
  fail(ErrorKind::data, "none of its {} samples can be used, so that nothing would be measured", data.samples_per_epoch);
}

bool OtherGraphs::is_due(std::size_t graph, std::uint64_t done) const {
  return every_[graph].due(done, meter_.steps_per_epoch(), run_.steps().end);
}

bool OtherGraphs::are_due(std::uint64_t done) const {
  for (std::size_t g = 1; g < every_.size(); ++g) {
    if (is_due(g, done)) return true;
  }
  return false;
}

bool OtherGraphs::is_end(std::size_t graph) const {
  const Every& every = every_[graph];
  return every.epochs <= 0 && every.steps == 0 && !every.never;
}

// A figure that says which weights are the best cannot wait for them.
bool OtherGraphs::is_closing(std::size_t graph) const {
  const std::optional<FigurePlan>& best = run_.pipeline().best;
  return best && best->graph != run_.builds()[graph]->plan().name && is_end(graph);
}

void OtherGraphs::run_due(std::uint64_t done) {
  std::vector<RequestEvent> asked;
  while (auto request = run_.requests().take(RequestKind::validate, done)) asked.push_back(std::move(*request));
  std::vector<std::size_t> due;
  for (std::size_t g = 1; g < run_.builds().size(); ++g) {
    if (!asked.empty() || is_due(g, done)) (is_closing(g) && is_due(g, done) ? closing_ : due).push_back(g);
  }
  run(due);
  std::erase_if(left_, [&](std::size_t g) { return !is_due(g, done); });
  for (RequestEvent& request : asked) {
    if (run_.builds().size() == 1 || stop_.found()) {
      run_.requests().refuse(std::move(request), stop_.found() ? "the run was stopped first" : "the pipeline has no other graph");
    } else {
      run_.requests().complete(std::move(request), done);
    }
  }
}

void OtherGraphs::run_left(std::uint64_t done, bool epoch_ends) {
  std::vector<std::size_t> due;
  for (std::size_t g = 1; g < every_.size(); ++g) {
    if (std::ranges::find(left_, g) != left_.end() || (epoch_ends && is_due(g, done)))
      (is_closing(g) ? closing_ : due).push_back(g);
  }
  run(due);
}

std::vector<std::size_t> OtherGraphs::writing() const {
  std::vector<std::size_t> graphs;
  for (std::size_t g = 1; g < every_.size(); ++g) {
    if (!every_[g].never && !is_end(g) && has_predictions(run_.builds()[g]->plan())) graphs.push_back(g);
  }
  return graphs;
}

void OtherGraphs::run_closing(const std::optional<Best>& best, bool ends) {
  std::vector<std::size_t> graphs = std::exchange(closing_, {});
  const std::vector<std::size_t> again = ends && run_.pipeline().best ? writing() : std::vector<std::size_t>();
  if (graphs.empty() && again.empty()) return;
  const std::vector<std::size_t> left = std::exchange(left_, {});
  {
    const BestExchange exchange(run_, best);
    best_step_ = exchange.step();
    if (best_step_ != 0) graphs.insert(graphs.begin(), again.begin(), again.end());
    run(graphs, best_step_ == 0);
    best_step_ = 0;
  }
  std::erase_if(left_, [&](std::size_t g) { return std::ranges::find(again, g) != again.end(); });
  left_.insert(left_.begin(), left.begin(), left.end());
}

void OtherGraphs::run_ends(std::uint64_t done) {
  std::vector<std::size_t> last;  // those that evaluate the last weights
  for (std::size_t g = 1; g < every_.size(); ++g) {
    const bool has_run = is_due(g, done) && std::ranges::find(left_, g) == left_.end();
    if (is_end(g) && !has_run) (is_closing(g) ? closing_ : last).push_back(g);
  }
  if (!last.empty()) run(last);
}

void OtherGraphs::run(const std::vector<std::size_t>& graphs, bool exchanges) {
  left_.clear();
  bool exchanged = !exchanges;
  for (const std::size_t g : graphs) {
    if (!stop_.look()) {
      if (!std::exchange(exchanged, true)) exchange_weights();
      try {
        if (run_pass(g, 0, run_.builds()[g]->data().steps_per_epoch())) continue;
      } catch (...) {
        const Error error = current_error();
        if (exchanges) exchange_weights();
        throw error;
      }
    }
    left_.push_back(g);
  }
  if (exchanges && exchanged) exchange_weights();
}

void OtherGraphs::exchange_weights() {
  if (run_.prepared.replicas.request().evaluated.empty()) return;
  for (const auto& replica : run_.replicas()) replica->swap_with(run_.prepared.replicas.request().evaluated);
}

void OtherGraphs::run_main() {
  meter_.goes_on();
  run_pass(0, run_.steps().first, run_.steps().end);
  meter_.stands_still();
  meter_.telemetry(true);
}

// The main graph, where it is one that does not train, has nothing after it.
bool OtherGraphs::breaks_off(std::size_t graph) const { return graph == 0 ? stop_.found().has_value() : stop_.breaks_off(); }

// Of several processes all say the same: with the last step of a pass they may have agreed to stop, and some have not looked yet.
bool OtherGraphs::is_broken_off(std::size_t graph) {
  if (!run_.barriers.empty()) stop_.look();
  return breaks_off(graph);
}

bool OtherGraphs::run_pass(std::size_t graph, std::uint64_t first, std::uint64_t last) {
  const GraphBuild& build = *run_.builds()[graph];
  const std::string& name = build.plan().name;
  const std::uint64_t skipped = run_.found().bad_samples.skipped(name);
  const auto start = std::chrono::steady_clock::now();
  run_.doing(fmt::format("[{}]", name));
  drive(graph, first, last);
  if (is_broken_off(graph)) return false;  // half a pass is no figure
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool joint = !run_.barriers.empty() && has_reports(build.plan());
  if (joint) meter_.await_others(name, first / build.data().steps_per_epoch(), last - first);
  run_.found().bad_samples.done(name, UINT64_MAX, 0);
  meter_.end_pass({graph, first, last, seconds, run_.found().bad_samples.skipped(name) - skipped, best_step_});
  return true;
}

void OtherGraphs::drive(std::size_t g, std::uint64_t first, std::uint64_t last) {
  Graph& graph = run_.graph(g);
  StallWatch stall;
  run_.found().epochs.begin_pass(run_.builds()[g]->plan().name);
  start_graph(run_, g, first, last);
  const Activity::Status status(run_.options().hooks.activity, [this, g] { return status_of(run_, g); });
  std::future<void> drained;
  start_beside(graph, [&] { drained = std::async(std::launch::async, [&graph] { graph.wait(); }); });
  try {
    while (drained.wait_for(run_.options().look_period) != std::future_status::ready) {
      stop_.look();
      if (breaks_off(g)) graph.stop();
      watch_graph(run_, g, stall, breaks_off(g));
      if (g != 0) continue;
      if (run_.options().hooks.on_tick) run_.options().hooks.on_tick(graph.figures());
      meter_.telemetry();
    }
  } catch (...) {
    graph.stop();
    throw;
  }
  drained.get();
}

std::vector<std::string> OtherGraphs::left() const {
  std::vector<std::string> names;
  for (const std::size_t g : left_) names.push_back(run_.builds()[g]->plan().name);
  return names;
}

void OtherGraphs::restore_left(const std::vector<std::string>& names) {
  for (std::size_t g = 1; g < run_.builds().size(); ++g) {
    if (std::ranges::find(names, run_.builds()[g]->plan().name) != names.end()) left_.push_back(g);
  }
}

}  // namespace millrace
