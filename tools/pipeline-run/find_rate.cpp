#include "find_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr double kLowestRate = 1e-7, kHighestRate = 10;
constexpr double kKept = 0.9;      // share of the average that stays from step to step
constexpr double kExplosion = 4;   // times the lowest smoothed loss
constexpr double kMargin = 10;     // from the rate of the lowest loss to the one that is proposed
constexpr std::size_t kEvery = 5;  // steps from one line of the table to the next

}  // namespace

double FindRate::rate_factor(std::uint64_t step) const {
  return std::pow(kHighestRate / kLowestRate, static_cast<double>(step) / static_cast<double>(most_steps() - 1));
}

std::vector<std::string> FindRate::overrides(const Pipeline& pipeline) const {
  const GraphPlan& graph = main_graph(pipeline, "--find-rate");
  const auto optimizer =
      std::find_if(graph.stages.begin(), graph.stages.end(), [](const StagePlan& stage) { return stage.type->takes_rule; });
  if (optimizer == graph.stages.end()) fail(ErrorKind::usage, "--find-rate: no stage of [{}] has a learning rate", graph.name);
  std::vector<std::string> overrides = common_overrides(pipeline);
  overrides.push_back(fmt::format("{}.{}.learning_rate={}", graph.name, optimizer->name, kLowestRate));
  return overrides;
}

void FindRate::step(const StepEvent& event) {
  const std::optional<double> loss = loss_of(event);
  if (!loss) return;
  average_ = kKept * average_ + (1 - kKept) * *loss;
  const double smoothed = average_ / (1 - std::pow(kKept, static_cast<double>(rows_.size() + 1)));
  rows_.push_back({kLowestRate * rate_factor(event.step - 1), *loss, smoothed});
  const Row* const best = lowest();
  if (!std::isfinite(smoothed) || (best != nullptr && smoothed > kExplosion * best->smoothed)) stop();
}

const FindRate::Row* FindRate::lowest() const {
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    if (std::isfinite(row.smoothed) && (best == nullptr || row.smoothed < best->smoothed)) best = &row;
  }
  return best;
}

double FindRate::proposal() const {
  const Row* const best = lowest();
  return best == nullptr || best == &rows_.front() ? 0 : best->rate / kMargin;
}

std::string FindRate::text() const {
  std::string text = fmt::format("{:>13}  {:>10}  {:>10}\n", "learning rate", "loss", "smoothed");
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r % kEvery != 0 && r + 1 != rows_.size()) continue;
    text += fmt::format("{:>13.2e}  {:>10.4g}  {:>10.4g}\n", rows_[r].rate, rows_[r].loss, rows_[r].smoothed);
  }
  if (proposal() == 0) return text + "no learning rate: the loss never fell below its first value\n";
  return text + fmt::format("the smoothed loss is lowest at {:.2e}; begin with a tenth: learning_rate = {:.1e}\n", lowest()->rate,
                            proposal());
}

}  // namespace millrace
