#include "overfit.h"

#include <fmt/format.h>

#include <algorithm>

#include "loss_of_guessing.h"
#include "millrace/error.h"
#include "millrace/util/schedule.h"
#include "report/number_watch.h"

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
  for (const StagePlan& stage : graph.stages) {  // an epoch has few steps here, and schedules count epochs
    const Value* rate = stage.type->takes_optimizer ? stage.table.find("learning_rate") : nullptr;
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

void Overfit::check(const PreparedRun& prepared) {
  const GraphBuild& main = prepared.main();
  if (main.data().steps_per_epoch() < batches_) {
    fail(ErrorKind::usage, "--overfit {}: [{}] has {} batch{} of {}: take fewer, or a smaller batch", batches_, main.plan().name,
         main.data().steps_per_epoch(), main.data().steps_per_epoch() == 1 ? "" : "es", main.data().batch.size);
  }
  require_classes(prepared, "--overfit");
  const std::shared_ptr<const Loss> loss = loss_in(prepared);
  if (!loss) return;
  if (loss->info().target == LossTarget::labels && batches_ * main.data().batch.size == 1) {
    fail(ErrorKind::usage,
         "--overfit: one image has one label. A network learns that without looking at the image, so nothing would be shown: "
         "take larger batches");
  }
  course_.set_guess(loss_of_guessing(loss, prepared.pipeline.network->output()[0]));
}

void Overfit::step(const StepEvent& event) {
  const std::optional<double> loss = loss_of(event);
  if (!loss || over()) return;  // pending steps may still arrive
  course_.add(*loss);
  for (const auto& [name, value] : event.scalars) {
    if (name == "learning_rate") rate_ = value;
  }
  if (over()) stop();
}

std::string Overfit::progress() const {
  return course_.steps() == 0 ? "" : fmt::format("loss {:.4g}, at first {:.4g}", course_.last(), course_.first());
}

// The result if the steps have not learned.
std::string Overfit::failure_reason() const {
  if (course_.grew()) return "The loss grew: the learning rate is too large. --find-rate proposes one";
  std::string text;
  if (course_.hardly_moved()) {
    text = fmt::format("The loss hardly moved: the learning rate ({:g}) is too small, or important layers are frozen", rate_);
  }
  if (course_.guesses()) {
    text += fmt::format("{}{:.4g} is the loss of guessing: weight decay, dropout or images that are all alike may keep it there",
                        text.empty() ? "" : ". ", *course_.guess());
  }
  if (!text.empty()) return text;
  return "Check the labels (pipeline-data show), the loss and the learning rate, dropout, weight decay and frozen layers";
}

std::string Overfit::text() const { return (succeeded() ? "passed: " : "failed: ") + verdict(); }

std::string Overfit::verdict() const {
  if (course_.steps() == 0) return "no step was done\n";
  const std::size_t steps = course_.steps();
  if (course_.broken()) {
    if (steps == 1) return text_of_broken_start(course_.newest());
    return fmt::format("{}, and the first one was {:.4g}. Look at the learning rate: --find-rate proposes one\n",
                       WrongNumber{steps - 1, "loss", course_.newest()}.text(), course_.first());
  }
  const std::string course = fmt::format("the loss went from {:.4g} to {:.4g} in {} step{}", course_.first(), course_.last(),
                                         steps, steps == 1 ? "" : "s");
  const std::string batches = batches_ == 1 ? "one batch" : fmt::format("{} batches", batches_);
  if (succeeded()) return fmt::format("{}: the network learns {} by heart\n", course, batches);
  return fmt::format("{}, and not to {:.4g}: the network does not learn {} by heart. {}\n", course, course_.goal(), batches,
                     failure_reason());
}

}  // namespace millrace
