// Tests that end as tests on a device may end. gpu-check's rehearsal finds them in a folder of their own; ctest does not run
// them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
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

// The first time it is under way until the runner is killed; then it is run once more.
TEST(Planted, PassesLast) {
  const char* const state = std::getenv("MILLRACE_GPU_CHECK");
  ASSERT_NE(state, nullptr);
  const std::string begun = std::string(state) + "/last_has_begun";
  if (std::ifstream(begun)) return;
  std::ofstream(begun) << "begun\n";
  sleep_for(3600);
}

}  // namespace
}  // namespace millrace::gpu
