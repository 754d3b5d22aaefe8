// A kernel that nvcc never saw would otherwise be found out by a launch, on a device.
#include <gtest/gtest.h>

#include "testkit/rules.h"

namespace millrace {
namespace {

TEST(Rules, HaveDeviceCodeWhereThereIsAToolkit) {
#if !defined(MILLRACE_RULES_ON_DEVICE)
  GTEST_SKIP() << "built without the CUDA toolkit";
#endif
  for (const auto& [name, type] : testkit::rule_registry().rules()) {
    int kernels = 0;
    testkit::make_rule(name)->update({}, 0, [&, rule = name](const Kernel& kernel, const void*) {
      EXPECT_NE(kernel.on_device, nullptr) << rule << ": " << kernel.name;
      ++kernels;
    });
    EXPECT_EQ(kernels, type.scope == RuleScope::parameter ? 3 : 1) << name;
  }
}

}  // namespace
}  // namespace millrace
