// Otherwise a kernel that nvcc never compiled would only be detected by a launch on a device.
#include <gtest/gtest.h>

#include "millrace/optimizer.h"
#include "testkit/optimizers.h"

namespace millrace {
namespace {

TEST(Optimizers, HaveDeviceCodeWhereThereIsAToolkit) {
#if !defined(MILLRACE_OPTIMIZERS_ON_DEVICE)
  GTEST_SKIP() << "built without the CUDA toolkit";
#endif
  for (const auto& [name, type] : testkit::optimizer_registry().optimizers()) {
    int kernels = 0;
    const auto count = [&, optimizer = name](const Kernel& kernel, const void*) {
      EXPECT_NE(kernel.on_device, nullptr) << optimizer << ": " << kernel.name;
      ++kernels;
    };
    const auto optimizer = testkit::make_optimizer(name);
    float number = 0;
    UpdateArguments at;
    for (float*& state : at.states) state = &number;
    if (type.scope == OptimizerScope::matrix) optimizer->directions(at, {}, count);
    optimizer->update(at, {}, count);
    int expected = type.scope == OptimizerScope::element ? 1 : type.scope == OptimizerScope::parameter ? 3 : 4;
    for (const OptimizerState& state : optimizer->states()) {
      expected += state.shape == StateShape::element ? 0 : state.shape == StateShape::scalar ? 2 : 1;
    }
    EXPECT_EQ(kernels, expected) << name;
  }
}

}  // namespace
}  // namespace millrace
