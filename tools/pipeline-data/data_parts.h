// The parts of a data set that the graphs of a pipeline file read: trained on, held out, and others.
#pragma once

#include <vector>

#include "data_set.h"

namespace millrace {

// The graphs of a run that read samples which neither `data` nor a graph before has, as far as the keys of their sources tell;
// none with every = "never".
std::vector<const GraphPlan*> other_parts(const DataSet& data);

// Where no graph was asked for: says on standard error which of them are left out, with their samples, where they can be counted
// on this machine, and the option that takes them.
void warn_of_other_parts(const DataSet& data, const DataSetOptions& options);

}  // namespace millrace
