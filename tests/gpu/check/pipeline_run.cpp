#include "pipeline_run.h"

#include <fmt/format.h>

namespace millrace::gpu {

PipelineRun run_pipeline(const Setting& setting, std::vector<std::string> words, const std::string& name, double limit,
                         const std::function<void(const Json&)>& seen,
                         const std::map<std::string, std::string>& more_environment) {
  words.insert(words.begin(), (setting.programs / "pipeline-run").string());
  words.insert(words.end(), {"--devices", setting.backend + ":0", "--json", "--quiet"});  // as many as the peers use
  const Budget budget(limit);
  PipelineRun result;
  auto variables = setting.environment();
  variables.insert(more_environment.begin(), more_environment.end());
  Child child({.words = words, .environment = variables, .log = setting.log(name)});
  while (auto line = child.read_line(budget.left())) {
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object()) continue;
    const std::string kind = event.value("event", "");
    if (kind == "epoch") result.epochs.push_back(event);
    if (kind == "validate") result.final_validation = event;
    if (seen) seen(event);
  }
  if (child.timed_out()) {
    result.trouble = "did not end in time";
    result.status = 124;
    return result;
  }
  result.status = child.wait();
  if (result.status != 0) result.trouble = fmt::format("status {}: {}", result.status, tail(setting.log(name)));
  return result;
}

Json failed_run(Report& report, const std::string& what, const PipelineRun& run) {
  const char* outcome = run.status == 4 ? "skipped" : run.status == 124 ? "unfinished" : "failed";  // 4: there is no device
  const std::string why = run.trouble.empty() ? "no epoch was measured" : run.trouble;
  report.row(what, outcome, why);
  return {{"outcome", outcome}, {"why", why}};
}

std::string set(const std::string& key, const std::string& value) { return "--set=" + key + "=" + value; }

std::vector<std::string> like_the_peers() { return {set("run.tune", "measure"), set("run.deterministic", "false")}; }

}  // namespace millrace::gpu
