// Several runs beside each other.
#pragma once

#include <string>
#include <vector>

#include "run_record.h"

namespace millrace {

// By a figure: "accuracy" is that of validation, or else of training; also "seconds", "step" and "name". The best come first,
// and runs without the figure last. Throws Error(usage) that names the figures there are.
void sort_runs(std::vector<RunRecord>& runs, const std::string& figure);

// `sorted_by`: a figure that has a column even if it is one of many.
std::string runs_table(const std::vector<RunRecord>& runs, const std::string& sorted_by = {});

// The keys that differ between their pipeline files, with the value of each run: a few runs beside each other, many below each
// other in their order. "": none does.
std::string differences_table(const std::vector<RunRecord>& runs);

// Their curves over each other, with both tables, in one HTML file.
std::string comparison_page(const std::vector<RunRecord>& runs);

}  // namespace millrace
