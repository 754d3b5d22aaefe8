#include "overfit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "millrace/error.h"
#include "millrace/schedule.h"
#include "run/number_watch.h"

namespace millrace {
namespace {

const StagePlan& stage_of(const GraphPlan& graph, StageType::Role role, const char* what) {
  const auto found =
      std::find_if(graph.stages.begin(), graph.stages.end(), [&](const StagePlan& stage) { return stage.type->role == role; });
  if (found == graph.stages.end()) fail(ErrorKind::usage, "--overfit: [{}] has no stage that {}", graph.name, what);
  return *found;
}

}  // namespace

std::vector<std::string> Overfit::overrides(const Pipeline& pipeline) const {
  const GraphPlan& graph = main_graph(pipeline, "--overfit");
  const StagePlan& source = stage_of(graph, StageType::Role::source, "reads samples");
  const StagePlan& batch = stage_of(graph, StageType::Role::batcher, "makes batches");
  const Value* size = batch.table.find("size");
  if (size == nullptr || size->kind() != Value::Kind::integer) {
    fail(ErrorKind::usage,
         "--overfit: how many samples N batches are must be known before the run, and 'size' of [{0}.{1}] is {2}: "
         "give a number, as --set {0}.{1}.size=32 does",
         graph.name, batch.name, size ? found(*size) : "not written");
  }
  std::vector<std::string> overrides = common_overrides(pipeline);
  for (const StagePlan& stage : graph.stages) {  // an epoch has a few steps here, and schedules count epochs
    const Value* rate = stage.type->takes_rule ? stage.table.find("learning_rate") : nullptr;
    if (!rate || rate->kind() != Value::Kind::table) continue;
    const Value* initial = rate->find("initial");
    overrides.push_back(fmt::format("{}.{}.learning_rate={}", graph.name, stage.name,
                                    initial && initial->is_number() ? initial->number() : ScheduleParams{}.initial));
  }
  overrides.push_back(
      fmt::format("{}.{}.limit={}", graph.name, source.name, static_cast<std::int64_t>(batches_) * size->integer()));
  return overrides;
}

void Overfit::shorten(Pipeline& pipeline) const {
  Trial::shorten(pipeline);
  for (StagePlan& stage : pipeline.graphs.front().stages) {
    if (Value* const loss = stage.type->takes_loss ? stage.table.find("loss") : nullptr; loss && loss->find("label_smoothing")) {
      loss->set("label_smoothing", Value(0.0));
    }
    if (stage.type->name != "mix_images") continue;
    for (const char* const way : {"mixup", "cutmix"}) {
      if (Value* const rule = stage.table.find(way)) rule->set("chance", Value(0.0));
    }
  }
}

void Overfit::check(const Session& session) const {
  const GraphBuild& main = *session.builds().front();
  if (main.steps_per_epoch() >= batches_) return;
  fail(ErrorKind::usage, "--overfit {}: [{}] has {} batch{} of {}: take fewer, or a smaller batch", batches_, main.plan().name,
       main.steps_per_epoch(), main.steps_per_epoch() == 1 ? "" : "es", main.batch().size);
}

void Overfit::step(const StepEvent& event) {
  const std::optional<double> loss = loss_of(event);
  if (!loss || failed() || succeeded()) return;  // steps under way may still come
  if (steps_++ == 0) first_ = *loss;
  losses_.push_back(*loss);
  if (losses_.size() > batches_) losses_.pop_front();
  if (failed() || succeeded()) stop();
}

bool Overfit::failed() const { return !losses_.empty() && !std::isfinite(losses_.back()); }

double Overfit::loss() const {
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(std::max<std::size_t>(losses_.size(), 1));
}

bool Overfit::succeeded() const { return losses_.size() == batches_ && loss() <= first_ / 10; }

std::string Overfit::text() const {
  if (failed()) {
    const std::string loss = WrongNumber{steps_ - 1, "loss", losses_.back()}.text();
    if (steps_ == 1) return loss + ", before anything was learned. Look at the images, the weights and the loss\n";
    return fmt::format("{}, and the first one was {:.4g}. Look at the learning rate: --find-rate proposes one\n", loss, first_);
  }
  const std::string course =
      fmt::format("the loss went from {:.4g} to {:.4g} in {} step{}", first_, loss(), steps_, steps_ == 1 ? "" : "s");
  const std::string batches = batches_ == 1 ? "one batch" : fmt::format("{} batches", batches_);
  if (succeeded()) return fmt::format("{}: the network learns {} by heart\n", course, batches);
  return fmt::format(
      "{}, and not to a tenth: the network does not learn {} by heart. Look at the labels (pipeline-data show), the loss and the "
      "learning rate\n",
      course, batches);
}

}  // namespace millrace
