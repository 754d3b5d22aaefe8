// Tests that end as tests on a device may end. gpu-check's rehearsal finds them in a folder of their own; ctest does not run
// them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace millrace::gpu {
namespace {

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(Planted, PassesFirst) { RecordProperty("held_mib", "12.5"); }
TEST(Planted, Fails) { EXPECT_EQ(1, 2) << "planted"; }
TEST(Planted, IsSkipped) { GTEST_SKIP() << "planted: nothing to do"; }
TEST(Planted, Crashes) { std::raise(SIGSEGV); }
TEST(Planted, PassesAfterACrash) { sleep_for(0.5); }
TEST(Planted, Hangs) { sleep_for(3600); }
TEST(Planted, PassesAfterAHang) { sleep_for(0.5); }
TEST(Planted, EndsTheProgram) { std::quick_exit(3); }
TEST(Planted, PassesLast) { sleep_for(5); }  // meanwhile the runner is killed

}  // namespace
}  // namespace millrace::gpu
