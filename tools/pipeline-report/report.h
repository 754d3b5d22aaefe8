// Compares several runs.
#pragma once

#include <string>
#include <vector>

#include "run_record.h"

namespace millrace {

// By a metric: "accuracy" is that of validation, or else of training; also "seconds", "step" and "name". The best come first, and
// runs without the metric last. Throws Error(usage), listing the available metrics.
void sort_runs(std::vector<RunRecord>& runs, const std::string& figure);

// `sorted_by`: a metric that gets a column even if it is a detail.
std::string runs_table(const std::vector<RunRecord>& runs, const std::string& sorted_by = {});

// The keys that differ between their pipeline files, with the value of each run: a few runs side by side, many below each other
// in order. "" if none differs.
std::string differences_table(const std::vector<RunRecord>& runs);

// Their curves in common plots, with both tables, in one HTML file.
std::string comparison_page(const std::vector<RunRecord>& runs);

}  // namespace millrace
