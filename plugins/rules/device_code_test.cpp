// A kernel that nvcc never saw would otherwise be found out by a launch, on a device.
#include <gtest/gtest.h>

#include "millrace/optimizer.h"
#include "testkit/rules.h"

namespace millrace {
namespace {

TEST(Rules, HaveDeviceCodeWhereThereIsAToolkit) {
#if !defined(MILLRACE_RULES_ON_DEVICE)
  GTEST_SKIP() << "built without the CUDA toolkit";
#endif
  for (const auto& [name, type] : testkit::rule_registry().rules()) {
    int kernels = 0;
    const auto count = [&, rule = name](const Kernel& kernel, const void*) {
      EXPECT_NE(kernel.on_device, nullptr) << rule << ": " << kernel.name;
      ++kernels;
    };
    const auto rule = testkit::make_rule(name);
    if (type.scope == RuleScope::matrix) rule->directions({}, 0, count);
    rule->update({}, 0, count);
    EXPECT_EQ(kernels, type.scope == RuleScope::element ? 1 : type.scope == RuleScope::parameter ? 3 : 4) << name;
  }
}

}  // namespace
}  // namespace millrace
