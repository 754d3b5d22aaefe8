// Update rules of plugin "rules" for tests of backends and stages.
//
// REQUIRES: the test's program depends on the plugin: millrace_test_plugins(TEST rules).
#pragma once

#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace::testkit {

const Registry& rule_registry();  // holds the rules and nothing else
std::shared_ptr<const Rule> make_rule(const std::string& name, const Value& parameters = {});

// Rule "sgd" and the same decay for all parameters.
UpdateRule sgd(const Network& network, double momentum = 0, double decay = 0, bool nesterov = false);

}  // namespace millrace::testkit
