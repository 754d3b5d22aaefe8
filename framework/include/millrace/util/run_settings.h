// The keys of a run's pipeline file, for records of its hyperparameters.
#pragma once

#include <string>
#include <vector>

#include "millrace/observer.h"

namespace millrace {

struct RunSetting {
  std::string key;  // "train.batch.size"
  Value value;      // a number, a text, true or false; a list is its TOML text
};

// Every key of the file as run, including base files and --set, in the order of its copy in the run's folder. Passwords in URLs
// are hidden, and ${env.NAME} stays unexpanded. Empty without such a copy.
std::vector<RunSetting> run_settings(const RunStart& run);

}  // namespace millrace
