// What a run has left in its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/util/course.h"

namespace millrace {

struct RunRecord {
  std::filesystem::path folder;
  std::string name;   // "quickstart/2026-01-01T00-00-00"
  std::string state;  // "done", "stopped", "evaluation", "no end": it still runs, failed or was killed
  double epochs = 0, seconds = 0;
  std::uint64_t step = 0, steps = 0, unread_lines = 0;
  std::map<std::string, double> figures;  // the newest of each: "validate.accuracy", "train.loss"; NaN: it was not finite
  std::set<std::string> higher_is_better, details;  // of these names; see the observer `metrics`
  std::map<std::string, Course> curves;   // of the same names, over steps
  Value pipeline;                         // as it was resolved
};

// Reads metrics.jsonl and pipeline.toml. A run that has resumed is read as one: steps that were made again count once. Lines that
// are no JSON, as a killed run may leave, or have a field of another type, are counted and skipped. Throws Error(usage) for a
// folder of no run.
RunRecord read_run(const std::filesystem::path& folder);

// The folders of runs that these mean: each is a run's, or holds some, as runs/NAME does. Throws Error(usage).
std::vector<std::filesystem::path> run_folders(const std::vector<std::string>& named);

}  // namespace millrace
