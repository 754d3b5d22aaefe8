// The parts of a data set that a pipeline file's graphs read: training, validation, and others.
#pragma once

#include <vector>

#include "data_set.h"

namespace millrace {

// A run's graphs that read samples outside `data` and the graphs before, judging by the keys of their sources; none with every =
// "never".
std::vector<const GraphPlan*> other_parts(const DataSet& data);

// If no graph was requested: logs to standard error which graphs are left out, with their number of samples if it can be counted
// on this machine, and the option that selects them.
void warn_of_other_parts(const DataSet& data, const DataSetOptions& options);

}  // namespace millrace
