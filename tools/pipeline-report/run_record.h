// Reads a run's folder.
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
  std::string state;  // "done", "stopped", "evaluation", "no end": still running, failed or killed
  double epochs = 0, seconds = 0;
  std::uint64_t step = 0, steps = 0, unread_lines = 0;
  std::map<std::string, double> figures;  // the newest of each: "validate.accuracy", "train.loss"; NaN if not finite
  std::set<std::string> higher_is_better, details;  // among these names; see the observer `metrics`
  std::map<std::string, Course> curves;   // by the same names, over steps
  Value pipeline;                         // with all values resolved
};

// Reads metrics.jsonl and pipeline.toml. A resumed run counts as one: repeated steps count once. Lines that are not JSON, which a
// killed run may leave, or with a field of the wrong type, are counted and skipped. Throws Error(usage) for a folder without a
// run.
RunRecord read_run(const std::filesystem::path& folder);

// The folders of runs in these: each is a run's, or contains some, like runs/NAME. Throws Error(usage).
std::vector<std::filesystem::path> run_folders(const std::vector<std::string>& named);

}  // namespace millrace
