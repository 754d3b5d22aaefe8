// Trains a pipeline until validation reaches an accuracy, without writing files.
#pragma once

#include <vector>

#include "calibration_run.h"

namespace millrace {

struct Validation {
  double seconds = 0;  // since training began
  double epoch = 0;
  double accuracy = 0;  // from 0 to 1
};

// All validations until the first one that reaches `accuracy`, or until the file's last epoch; without a validation graph, the
// means of epochs. Empty on ranks other than 0. Throws Error(usage) if nothing measures an accuracy.
std::vector<Validation> train_to_accuracy(const ProfiledFile& what, const Registry& registry, double accuracy, Group* group);

}  // namespace millrace
