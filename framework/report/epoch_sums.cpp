#include "report/epoch_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "millrace/loss.h"

namespace millrace {

void GraphSums::add(const GraphSums& others) {
  if (!loss) loss = others.loss;
  sums.add(others.sums);
  samples += others.samples;
  steps += others.steps;
  stream_hash += others.stream_hash;
  if (!output) output = others.output;
}

bool GraphSums::measured_nothing() const { return loss && !sums.values.empty() && sums.weight() == 0; }

std::vector<Figure> GraphSums::figures(std::size_t most) const {
  std::vector<Figure> made;
  if (!loss || sums.values.empty() || measured_nothing()) return made;
  for (const LossFigure& figure : loss->info().figures) {
    if (most-- == 0) break;
    if (output && !fits(figure, *output)) continue;
    double value = figure.finish(sums.values);
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // NaN's sign is meaningless, but would be printed
    made.push_back({figure.name, value, figure.percent, figure.better == LossFigure::Better::higher, figure.is_detail});
  }
  return made;
}

std::vector<double> GraphSums::class_matrix() const {
  if (!loss || !loss->info().class_matrix || sums.values.empty() || measured_nothing()) return {};
  return {sums.values.begin() + static_cast<std::ptrdiff_t>(loss->info().sums.size()), sums.values.end()};
}

std::optional<ClassTotals> GraphSums::class_totals() const {
  if (!loss || sums.values.empty() || measured_nothing()) return std::nullopt;
  const std::span<const double> after = std::span(sums.values).subspan(loss->info().sums.size());
  if (loss->info().class_totals) return ClassTotals(after);
  if (loss->info().class_matrix) return ClassMatrix(after);
  return std::nullopt;
}

void EpochSums::add(std::string_view graph, std::uint64_t epoch, const GraphSums& step) {
  const Lock lock(mutex_);
  epochs_[{std::string(graph), epoch}].add(step);
  added_.notify_all();
}

std::uint64_t EpochSums::steps_of(std::string_view graph, std::uint64_t epoch) const {
  const auto found = epochs_.find({std::string(graph), epoch});
  return found == epochs_.end() ? 0 : found->second.steps;
}

std::uint64_t EpochSums::await(std::string_view graph, std::uint64_t epoch, std::uint64_t steps,
                               std::chrono::milliseconds most) const {
  const auto end = std::chrono::steady_clock::now() + most;
  Lock lock(mutex_);
  while (steps_of(graph, epoch) < steps && lock.wait_until(added_, end)) continue;
  return steps_of(graph, epoch);
}

GraphSums EpochSums::of(std::string_view graph, std::uint64_t epoch) const {
  const Lock lock(mutex_);
  const auto found = epochs_.find({std::string(graph), epoch});
  return found == epochs_.end() ? GraphSums{} : found->second;
}

void EpochSums::restore(std::string_view graph, std::uint64_t epoch, GraphSums sums) {
  const Lock lock(mutex_);
  sums.output = output_;
  epochs_[{std::string(graph), epoch}] = std::move(sums);
}

void EpochSums::forget(std::string_view graph, std::uint64_t epoch) {
  const Lock lock(mutex_);
  epochs_.erase({std::string(graph), epoch});
}

void EpochSums::add_figure(std::string_view graph, const Figure& figure) {
  const Lock lock(mutex_);
  std::vector<Figure>& figures = figures_[std::string(graph)];
  if (std::ranges::find(figures, figure.name, &Figure::name) == figures.end()) figures.push_back(figure);
}

std::vector<Figure> EpochSums::take_figures(std::string_view graph) {
  const Lock lock(mutex_);
  const auto found = figures_.find(graph);
  return found == figures_.end() ? std::vector<Figure>() : std::exchange(found->second, {});
}

void EpochSums::begin_pass(std::string_view graph) {
  const Lock lock(mutex_);
  ++passes_[std::string(graph)];
  figures_.erase(std::string(graph));
  std::erase_if(epochs_, [&](const auto& each) { return each.first.first == graph; });
}

std::uint64_t EpochSums::passes(std::string_view graph) const {
  const Lock lock(mutex_);
  const auto found = passes_.find(graph);
  return found == passes_.end() ? 0 : found->second;
}

}  // namespace millrace
