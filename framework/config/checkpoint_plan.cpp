#include "config/checkpoint_plan.h"

#include <fmt/format.h>

#include "config/quantity.h"
#include "config/read_table.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"

namespace millrace {

void CheckpointParams::describe(ParamSet<CheckpointParams>& set) {
  set.add("every", &CheckpointParams::every)
      .text(
          "\"100 steps\", \"2 epochs\", \"10 minutes\" or \"end\": checkpoint interval; the run's end always has one. \"never\": "
          "none");
  set.add("keep", &CheckpointParams::keep).range(1).text("number of newest checkpoints to keep");
  set.add("keep_every", &CheckpointParams::keep_every)
      .text("\"1000 steps\" or \"10 epochs\": the first checkpoint at or after each is kept forever");
  set.add("best", &CheckpointParams::best)
      .text("\"validate.accuracy\": each improvement of this metric writes a checkpoint, the best is kept too; as run.best");
  set.add("resume", &CheckpointParams::resume)
      .choices({"never", "auto"})
      .text("auto: each start resumes the newest run of this name, if any; never: only --resume does");
  set.add("folder", &CheckpointParams::folder)
      .text("where all runs write checkpoints: a folder or \"s3://bucket/prefix\"; default: \"checkpoints\" in the run's folder");
}

namespace {

void plan_interval(const Value& every, CheckpointPlan& plan, Diagnostics& errors) {
  std::string hint;
  const std::string text = every.kind() == Value::Kind::text ? every.text() : "";
  if (const auto seconds = parse_duration(text, hint)) {
    plan.seconds = *seconds;
    plan.every = {};
    return;
  }
  const auto parsed = parse_every(text, hint);
  if (parsed) {
    plan.every = *parsed;
    plan.wanted = !parsed->never;
    return;
  }
  errors.add(
      every.at(),
      fmt::format("'every' must be \"epoch\", \"end\", \"never\", such as \"2 epochs\" or \"100 steps\", or {}, found {}{}",
                  kDurationForms, found(every), hint));
}

void plan_kept(const Value& kept, CheckpointPlan& plan, Diagnostics& errors) {
  std::string hint;
  const std::string text = kept.kind() == Value::Kind::text ? kept.text() : "";
  const auto parsed = parse_every(text, hint);
  if (parsed && (parsed->steps > 0 || parsed->epochs > 0)) {
    plan.keep_every = *parsed;
  } else if (kept.kind() != Value::Kind::text || !text.empty()) {
    errors.add(kept.at(),
               fmt::format("'keep_every' must look like \"1000 steps\" or \"10 epochs\", found {}{}", found(kept), hint));
  }
}

}  // namespace

CheckpointPlan plan_checkpoint(const Value* checkpoint, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  CheckpointPlan plan;
  plan.wanted = true;
  plan.by_default = checkpoint == nullptr;
  plan.every.epochs = 1;
  if (plan.by_default) {
    plan.keep = 1;
    return plan;
  }
  const auto params = read_table<CheckpointParams>(*checkpoint, "[checkpoint]", errors);
  if (!params) return {};
  if (const Value* every = checkpoint->find("every")) plan_interval(*every, plan, errors);
  plan.keep = static_cast<std::size_t>(params->keep);
  if (const Value* kept = checkpoint->find("keep_every")) plan_kept(*kept, plan, errors);
  if (const Value* best = checkpoint->find("best"); best && !params->best.empty()) {
    plan.best = plan_figure("best", *best, graphs, errors);
  }
  plan.resume = params->resume == "auto";
  try {
    plan.folder = file_url_path(params->folder);
  } catch (const Error& error) {
    errors.add(checkpoint->find("folder")->at(), error.message());
  }
  return plan;
}

}  // namespace millrace
