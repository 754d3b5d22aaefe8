// pipeline-run as a child, and its events.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check.h"

namespace millrace::gpu {

struct PipelineRun {
  std::vector<Json> epochs;
  Json final_validation = Json::object();
  int status = 0;
  std::string trouble;  // empty: it ended well
};

// `words`: the pipeline's file and options. `seen` is told each event as it comes; it may be empty.
PipelineRun run_pipeline(const Setting& setting, std::vector<std::string> words, const std::string& name, double limit,
                         const std::function<void(const Json&)>& seen = {},
                         const std::map<std::string, std::string>& more_environment = {});

// A part's result after a run that did not end well.
Json failed_run(Report& report, const std::string& what, const PipelineRun& run);

// "--set=key=value"
std::string set(const std::string& key, const std::string& value);

// As PyTorch's peers do with cudnn.benchmark: engines are chosen by timing, and need not be deterministic.
std::vector<std::string> like_the_peers();

}  // namespace millrace::gpu
