// Tests with the possible endings of tests on a device. The rehearsal of a visit runs them next to real ones; ctest does not.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "../finished_tests.h"

namespace millrace::gpu {

namespace {

bool device_is_lost = false;

TEST(GpuComparison, PassesFirst) { RecordProperty("held_mib", "12.5"); }
TEST(GpuComparison, Fails) { EXPECT_EQ(1, 2) << "planted"; }
TEST(GpuComparison, IsSkipped) { GTEST_SKIP() << "planted: nothing to do"; }
TEST(GpuComparison, Crashes) { std::raise(SIGKILL); }
TEST(GpuComparison, PassesBehindACrash) {}
TEST(GpuComparison, LosesTheDevice) {
  device_is_lost = true;
  FAIL() << "planted";
}
TEST(GpuComparison, PassesBehindALostDevice) { EXPECT_FALSE(device_is_lost) << "in the same process"; }
TEST(GpuComparison, EndsTheProgram) { std::quick_exit(3); }
TEST(GpuComparison, Hangs) { std::this_thread::sleep_for(std::chrono::hours(1)); }
TEST(GpuComparison, PassesLast) {}

TEST(GpuReplica, IsUnderWayWhenTheLeaseEnds) { std::this_thread::sleep_for(std::chrono::hours(1)); }

}  // namespace

std::string why_device_is_lost() { return device_is_lost ? "planted: an illegal memory access was encountered" : ""; }

}  // namespace millrace::gpu
