// Every plugin found, and the results of testkit/conformance.h for its types.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testkit/conformance.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {

// Every plugin of the search path, loaded once.
const Registry& registry();
// And the simulated GPU, if available.
const Registry& with_simulation();

// Names of everything registered, for parameterised tests.
std::vector<std::string> stage_names();
std::vector<std::string> stage_names(StageType::Role role);
std::vector<std::string> backend_names();  // with the simulated GPU
inline std::string by_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

// Runs a check on the type of this name, like `pipeline-inspect --conformance`.
void expect_passes(std::string_view kind, std::string_view check, const std::string& name);

}  // namespace millrace::conformance
