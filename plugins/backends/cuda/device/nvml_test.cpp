// What NVML says of a GPU and of a slice of one, by a library that is acted out (fake_nvml.cpp).
#include "nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace millrace::cuda {
namespace {

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() {
    const char* const before = std::getenv(kVariable);
    if (before != nullptr) before_ = before;
    setenv(kVariable, MILLRACE_FAKE_NVML, 1);
    nvml_ = Nvml::open();
  }
  ~NvmlTest() override {
    if (before_)
      setenv(kVariable, before_->c_str(), 1);
    else
      unsetenv(kVariable);
  }
  static constexpr const char* kVariable = "MILLRACE_CUDA_LIBRARIES";
  std::optional<std::string> before_;
  std::unique_ptr<Nvml> nvml_;
};

TEST_F(NvmlTest, ASliceOfAGpuHasFreeMemoryOfItsOwn) {
  ASSERT_TRUE(nvml_);
  EXPECT_TRUE(nvml_->knows("MIG-1"));
  EXPECT_FALSE(nvml_->knows("MIG-2"));
  EXPECT_EQ(nvml_->free_memory("GPU-1"), std::size_t{50} << 30);
  EXPECT_EQ(nvml_->free_memory("MIG-1"), std::size_t{3} << 30);
  EXPECT_EQ(nvml_->free_memory("MIG-2"), std::nullopt);
  EXPECT_EQ(nvml_->links("0000:01:00.0"), "NVLink x2, PCIe 5.0 x16");
}

}  // namespace
}  // namespace millrace::cuda
