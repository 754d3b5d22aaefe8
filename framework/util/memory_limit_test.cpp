#include "util/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kGiB = std::size_t{1} << 30;

// A simulated file system.
class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("memory_limit_" + std::to_string(::getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { fs::remove_all(root_); }
  void say(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }

  fs::path root_;
};

TEST_F(MemoryLimit, OfAddressesIsTheProcesss) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit limited{std::min<rlim_t>(rlim_t{1} << 46, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  const std::size_t found = address_limit();
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(found, limited.rlim_cur);
  EXPECT_EQ(lesser_limit(0, 0), 0U);
  EXPECT_EQ(lesser_limit(0, 3), 3U);
  EXPECT_EQ(lesser_limit(4, 0), 4U);
  EXPECT_EQ(lesser_limit(4, 3), 3U);
}

TEST_F(MemoryLimit, IsToldWithWhatTheProgramHolds) {
  EXPECT_EQ(held_memory(kGiB).find("the program holds "), 0U) << held_memory(kGiB);
  if (address_limit() == 0) {
    EXPECT_TRUE(held_memory(kGiB).ends_with(", and there are 1.00 GiB")) << held_memory(kGiB);
    EXPECT_EQ(held_memory(0).find(", "), std::string::npos) << "it is not known: " << held_memory(0);
  }
}

TEST_F(MemoryLimit, IsTheMachinesWhereNoGroupSaysLess) {
  EXPECT_EQ(host_memory(root_), 0U) << "nothing is said";
  say("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1024 kB");
  EXPECT_EQ(host_memory(root_), 16 * kGiB);
  say("proc/self/cgroup", "0::/user.slice/a.scope");
  say("sys/fs/cgroup/user.slice/a.scope/memory.max", "max");
  EXPECT_EQ(host_memory(root_), 16 * kGiB);
  say("sys/fs/cgroup/user.slice/a.scope/memory.max", std::to_string(64 * kGiB));
  EXPECT_EQ(host_memory(root_), 16 * kGiB);
}

TEST_F(MemoryLimit, IsTheLeastOfAGroupAndThoseAboveIt) {
  say("proc/meminfo", "MemTotal:       16777216 kB");
  say("proc/self/cgroup", "0::/user.slice/a.scope");
  say("sys/fs/cgroup/user.slice/a.scope/memory.max", std::to_string(4 * kGiB));
  EXPECT_EQ(host_memory(root_), 4 * kGiB);
  say("sys/fs/cgroup/user.slice/memory.max", std::to_string(3 * kGiB));
  EXPECT_EQ(host_memory(root_), 3 * kGiB);
  say("sys/fs/cgroup/memory.max", std::to_string(2 * kGiB));  // as inside a container
  EXPECT_EQ(host_memory(root_), 2 * kGiB);
}

TEST_F(MemoryLimit, KnowsGroupsOfVersionOne) {
  say("proc/meminfo", "MemTotal:       16777216 kB");
  say("proc/self/cgroup", "12:cpu,cpuacct:/docker/3f\n4:memory:/docker/3f\n0::/");
  say("sys/fs/cgroup/memory/docker/3f/memory.limit_in_bytes", std::to_string(5 * kGiB));
  EXPECT_EQ(host_memory(root_), 5 * kGiB);
}

TEST_F(MemoryLimit, OfThisMachineIsKnown) { EXPECT_GT(host_memory(), std::size_t{64} << 20); }

TEST(DeviceMemory, LeavesAReserveAndDoesNotFollowEveryByte) {
  EXPECT_EQ(usable_device_memory(80 * kGiB, 80 * kGiB), 79 * kGiB);
  EXPECT_EQ(usable_device_memory(80 * kGiB - 1000, 80 * kGiB), usable_device_memory(80 * kGiB - 2000, 80 * kGiB));
  EXPECT_EQ(usable_device_memory(4 * kGiB, 4 * kGiB), 3 * kGiB + kGiB / 2);
  EXPECT_EQ(usable_device_memory(kGiB / 2, 80 * kGiB), 0U);
}

}  // namespace
}  // namespace millrace
