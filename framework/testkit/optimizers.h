// Optimizers of plugin "optimizers" for tests of backends and stages.
//
// REQUIRES: the test's program depends on the plugin: millrace_test_plugins(TEST optimizers).
#pragma once

#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace::testkit {

const Registry& optimizer_registry();  // holds only the optimizers
std::shared_ptr<const Optimizer> make_optimizer(const std::string& name, const Value& parameters = {});

// Optimizer "sgd" with the same decay for all parameters.
OptimizerSpec sgd(const Network& network, double momentum = 0, double decay = 0, bool nesterov = false);

}  // namespace millrace::testkit
