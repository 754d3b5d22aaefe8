#include "test_groups.h"

#include <gtest/gtest.h>

#include <numeric>

namespace millrace::gpu {
namespace {

TEST(ListedTests, AreReadWithTheirSuites) {
  const auto tests = listed_tests(
      "Running main() from ./googletest/src/gtest_main.cc\n"
      "GpuComparison.\n"
      "  SeesAThousandthThatIsWrong\n"
      "Fixed/GpuOperators.  # TypeParam = int\n"
      "  AgreeInFloat32/Conv  # GetParam() = Conv\n");
  EXPECT_EQ(tests,
            (std::vector<std::string>{"GpuComparison.SeesAThousandthThatIsWrong", "Fixed/GpuOperators.AgreeInFloat32/Conv"}));
}

TEST(TestGroups, BeginWithWhatIsWorthMost) {
  const auto groups =
      make_groups("gpu_backend_test",
                  {"GpuReplica.Infers", "Fixed/GpuOperators.AgreeInTf32/Conv", "Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16",
                   "GpuComparison.Sees", "Shipped/GpuNetworks.TrainAsOnTheCpu/alexnet", "Fixed/GpuOperators.AgreeInBf16/Conv",
                   "Fixed/GpuOperators.AgreeInFloat32/Conv"});
  std::vector<std::string> first;
  for (const TestGroup& group : groups) first.push_back(group.tests.front());
  EXPECT_EQ(first, (std::vector<std::string>{"GpuComparison.Sees", "Fixed/GpuOperators.AgreeInFloat32/Conv",
                                             "Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16",
                                             "Shipped/GpuNetworks.TrainAsOnTheCpu/alexnet", "Fixed/GpuOperators.AgreeInBf16/Conv",
                                             "Fixed/GpuOperators.AgreeInTf32/Conv", "GpuReplica.Infers"}));
  EXPECT_TRUE(groups.back().alone) << "it measures the device";
  EXPECT_FALSE(groups.front().alone);
}

TEST(TestGroups, HoldAllTestsOnceAndFewEach) {
  std::vector<std::string> tests;
  for (int i = 0; i < 50; ++i) tests.push_back("Fixed/GpuOperators.AgreeInFloat32/Case" + std::to_string(i));
  std::vector<std::string> found;
  for (const TestGroup& group : make_groups("gpu_backend_test", tests)) {
    EXPECT_LE(group.tests.size(), 12U);
    found.insert(found.end(), group.tests.begin(), group.tests.end());
  }
  EXPECT_EQ(found, tests);
}

TEST(TestGroups, LeaveOutWhatIsDone) {
  auto groups = make_groups("/bundle/tests/gpu_device_test", {"A.B", "A.C"});
  leave_out({{"gpu_device_test", "A.B"}, {"gpu_backend_test", "A.C"}}, groups);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].tests, std::vector<std::string>{"A.C"});
  leave_out({{"gpu_device_test", "A.C"}}, groups);
  EXPECT_TRUE(groups.empty());
}

TEST(Filter, TakesGoogleTestsPatterns) {
  EXPECT_TRUE(matches("*", "Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16"));
  EXPECT_TRUE(matches("A.*:*Networks*", "Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16"));
  EXPECT_FALSE(matches("A.*:B.*", "C.D"));
  EXPECT_FALSE(matches("*-*/vgg16:*/alexnet", "Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16"));
  EXPECT_TRUE(matches("-*/vgg16", "Shipped/GpuNetworks.TrainAsOnTheCpu/alexnet"));
  EXPECT_TRUE(matches("A.?", "A.B"));
  EXPECT_FALSE(matches("A.?", "A.BC"));
}

TEST(CompareWithCpu, OperatorsAndOneStepOfEachNetwork) {
  EXPECT_TRUE(compares_with_cpu("Fixed/GpuOperators.AgreeInTf32/Conv"));
  EXPECT_TRUE(compares_with_cpu("Shipped/GpuNetworks.TrainAsOnTheCpu/vgg16"));
  EXPECT_FALSE(compares_with_cpu("Shipped/GpuNetworks.TrainToTheSameBitsInBf16/vgg16"));
  EXPECT_FALSE(compares_with_cpu("GpuReplica.Infers"));
}

TEST(Cores, AreSharedEvenlyAndOnce) {
  std::vector<int> cores(16);
  std::iota(cores.begin(), cores.end(), 4);
  const auto shares = share_cores(cores, 6);
  ASSERT_EQ(shares.size(), 6U);
  std::vector<int> together;
  for (const auto& share : shares) {
    EXPECT_GE(share.size(), 2U);
    EXPECT_LE(share.size(), 3U);
    together.insert(together.end(), share.begin(), share.end());
  }
  EXPECT_EQ(together, cores);
  EXPECT_EQ(share_cores({0, 1}, 6).size(), 2U);
  EXPECT_EQ(share_cores({}, 6).size(), 1U);
}

}  // namespace
}  // namespace millrace::gpu
