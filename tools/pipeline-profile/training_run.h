// Trains a pipeline until validation has reached an accuracy, and writes nothing.
#pragma once

#include <vector>

#include "calibration_run.h"

namespace millrace {

struct Validation {
  double seconds = 0;  // since training began
  double epoch = 0;
  double accuracy = 0;  // from 0 to 1
};

// All validations until the first one that reaches `accuracy`, or until the file's last epoch; of a file without a graph that
// validates, the means of epochs. On other ranks than 0: none. Throws Error(usage) where nothing counts an accuracy.
std::vector<Validation> train_to_accuracy(const ProfiledFile& what, const Registry& registry, double accuracy, Group* group);

}  // namespace millrace
