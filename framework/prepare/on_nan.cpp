#include "prepare/on_nan.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"

namespace millrace {
namespace {

void check_rollback(const std::string& place, const NanSetting& setting) {
  if (!setting.has_checkpoints) {
    fail(ErrorKind::usage,
         "{}: on_nan = \"rollback\" goes back to a checkpoint, and the run writes none: it needs a run.folder, and another "
         "checkpoint.every than \"never\"",
         place);
  }
  if (setting.processes <= 1) return;
  fail(ErrorKind::usage,
       "{}: on_nan = \"rollback\" takes one process, and this run has {}: leave out --processes, or say \"stop\" and "
       "resume with --resume",
       place, setting.processes);
}

void check_skip(const std::string& place, const GraphBuild& main) {
  const auto leaves_out = [](const auto& instances) { return instances.front()->leaves_out_updates(); };
  if (std::ranges::any_of(main.stages(), leaves_out)) return;
  fail(ErrorKind::usage,
       "{}: on_nan = \"skip\" takes a stage that bounds the norm of all gradients, and [{}] has none: put one between "
       "allreduce and optimizer, with global_norm = 1e30 if it is to bound nothing",
       place, main.plan().name);
}

}  // namespace

void check_on_nan(const Pipeline& pipeline, const GraphBuild& main, const NanSetting& setting) {
  const std::string& on_nan = pipeline.run.on_nan;
  if (on_nan == "stop" || !main.trains()) return;
  const std::string place = pipeline.place_of("run.on_nan");
  on_nan == "rollback" ? check_rollback(place, setting) : check_skip(place, main);
}

}  // namespace millrace
