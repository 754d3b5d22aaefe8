// Losses of plugin "losses" for tests of backends and stages.
//
// REQUIRES: the test's program depends on the plugin: millrace_test_plugins(TEST losses).
#pragma once

#include <memory>
#include <string>

#include "millrace/loss.h"
#include "millrace/plugin.h"

namespace millrace::testkit {

const Registry& loss_registry();  // holds only the losses
std::shared_ptr<const Loss> make_loss(const std::string& name, const Value& parameters = {});
std::shared_ptr<const Loss> cross_entropy(double label_smoothing = 0);  // the same one each time

// The loss of one of its type's examples.
std::shared_ptr<const Loss> example_loss(const LossType& type, const LossExample& example);

// Sums of cross_entropy().
inline constexpr std::size_t kCorrect = 2, kCorrect5 = 3;

}  // namespace millrace::testkit
