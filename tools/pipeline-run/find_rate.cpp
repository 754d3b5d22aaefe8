#include "find_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "rate_picture.h"

namespace millrace {
namespace {

constexpr double kLowestRate = 1e-7, kHighestRate = 10;
constexpr std::size_t kEvery = 5;  // steps between lines of the table

std::string shown(double loss) { return std::isnan(loss) ? "nan" : fmt::format("{:.4g}", loss); }

}  // namespace

FindRate::FindRate(std::string picture) : picture_(std::move(picture)) {
  if (picture_.empty()) return;
  if (!drawing::can_draw()) fail(ErrorKind::usage, "--picture needs cairo and FriBidi, and this build was made without them");
  if (!picture_.ends_with(".png")) fail(ErrorKind::usage, "--picture makes a PNG file: '{}' should end in .png", picture_);
  try {
    const OutputFile trial(picture_);  // removed afterwards
  } catch (Error& error) {
    throw error.in("--picture");
  }
}

double FindRate::rate_factor(std::uint64_t step) const {
  return std::pow(kHighestRate / kLowestRate, static_cast<double>(step) / static_cast<double>(most_steps() - 1));
}

std::vector<std::string> FindRate::overrides(const Pipeline& pipeline) const {
  const GraphPlan& graph = main_graph(pipeline, "--find-rate");
  const auto optimizer =
      std::find_if(graph.stages.begin(), graph.stages.end(), [](const StagePlan& stage) { return stage.type->takes_optimizer; });
  if (optimizer == graph.stages.end()) fail(ErrorKind::usage, "--find-rate: no stage of [{}] has a learning rate", graph.name);
  std::vector<std::string> overrides = common_overrides(pipeline);
  overrides.push_back(fmt::format("{}.{}.learning_rate={}", graph.name, optimizer->name, kLowestRate));
  return overrides;
}

void FindRate::check(const PreparedRun& prepared) {
  require_classes(prepared, "--find-rate");
  for (const StagePlan& stage : prepared.pipeline.graphs.front().stages) {
    const Value* const scale = stage.type->takes_optimizer ? stage.table.find("scale_with_batch") : nullptr;
    const Value* const reference = scale ? scale->find("reference") : nullptr;
    scales_ = scales_ || (reference && reference->is_number() && reference->number() > 0);
  }
}

void FindRate::step(const StepEvent& event) {
  const std::optional<double> loss = loss_of(event);
  if (!loss) return;
  curve_.add(kLowestRate * rate_factor(event.step - 1), *loss);
  if (curve_.exploded()) stop();
}

std::string FindRate::progress() const {
  if (curve_.points().empty()) return {};
  const RatePoint& last = curve_.points().back();
  return fmt::format("learning rate {:.1e}  loss {}", last.rate, shown(last.loss));
}

std::string FindRate::failure_reason() const {
  if (curve_.falls_to_nothing()) {
    return "the losses fell to 0, even of new batches: nothing is left to learn. All labels may be the "
           "same (pipeline-data count)";
  }
  if (curve_.exploded()) {
    return fmt::format(
        "the loss exploded at a rate of {:.2e}, before it ever fell clearly below the first losses, {:.4g} +- {:.2g}: something "
        "other than the rate may be too large, such as weight_decay",
        curve_.points().back().rate, curve_.level(), curve_.deviation());
  }
  return fmt::format(
      "the smoothed loss never fell clearly below the first losses, {:.4g} +- {:.2g}; in larger batches they differ less, a "
      "network may be frozen or take longer than {} steps, and --overfit 1 shows whether it learns at all. If it does, labels "
      "may not belong to their images (pipeline-data show)",
      curve_.level(), curve_.deviation(), most_steps());
}

std::string FindRate::text() const {
  const std::span<const RatePoint> points = curve_.points();
  if (points.empty()) return "no step was done\n";
  if (!std::isfinite(points.front().loss)) return text_of_broken_start(points.front().loss);
  std::string text = fmt::format("{:>13}  {:>10}  {:>10}\n", "learning rate", "loss", "smoothed");
  for (std::size_t r = 0; r < points.size(); ++r) {
    if (r % kEvery != 0 && r + 1 != points.size()) continue;
    text += fmt::format("{:>13.2e}  {:>10}  {:>10}\n", points[r].rate, shown(points[r].loss), shown(points[r].smoothed));
  }
  if (scales_) text += "rates are values of the key learning_rate, before scale_with_batch multiplies them\n";
  if (curve_.proposal() == 0) return text + "no learning rate: " + failure_reason() + "\n";
  if (curve_.falls_at_the_end()) {
    return text + fmt::format("proposed: --lr {:.2g}, or more: the smoothed loss still falls at {:.2g}, where the range ends\n",
                              curve_.proposal(), points.back().rate);
  }
  text += fmt::format("proposed: --lr {:.2g} (the loss stops falling there; it is lowest at {:.2g})\n", curve_.proposal(),
                      curve_.lowest()->rate);
  if (!curve_.falls_slightly()) return text;
  return text +
         fmt::format(
             "rough: the loss fell by little more than batches differ ({:.2g}). A larger rate may be better, up to {:.2g}\n",
             curve_.deviation(), curve_.lowest()->rate);
}

std::string FindRate::write_files() const {
  if (picture_.empty() || curve_.points().empty()) return {};
  if (curve_.lowest() == nullptr) return "no picture: no loss is finite\n";
  OutputFile file(picture_);
  file.write(rate_picture(curve_).png());
  file.commit();
  return fmt::format("picture: {}\n", picture_);
}

}  // namespace millrace
