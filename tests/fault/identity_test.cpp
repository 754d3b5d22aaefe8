// The stream of samples and the weights depend only on the file and the seed, not on threads, or on where a run was stopped.
// Over replicas the stream is equal, and weights agree up to the order of sums.
//
// MILLRACE_IDENTITY=all tries every number of threads with every place to stop.
#include <fmt/format.h>

#include <cstdlib>

#include "fault_runner.h"
#include "weights/safetensors.h"

namespace millrace::test::identity_test {
namespace {

class Identity : public RunTest {
 protected:
  static std::string threads(int count) { return fmt::format("run.threads={}", count); }
};

TEST_F(Identity, ThreadsAndPlacesToStopChangeNothing) {
  const Words set = {"checkpoint.every=1 step", "checkpoint.keep=100"};
  const auto with = [&](int count) {
    Words more = set;
    more.push_back(threads(count));
    return more;
  };
  ASSERT_EQ(run("whole", with(1)).code, 0);
  const LeftByRun whole = left_by(run_in("whole"));
  const bool all = std::getenv("MILLRACE_IDENTITY") != nullptr;
  for (const int count : all ? std::vector<int>{2, 4, 8} : std::vector<int>{8}) {
    const std::string runs = fmt::format("threads{}", count);
    ASSERT_EQ(run(runs, with(count)).code, 0);
    expect_the_same(whole, left_by(run_in(runs)), runs);
  }
  for (const std::uint64_t step : {2, 7}) {  // in the middle of each epoch
    for (const int count : all ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{step == 2 ? 2 : 4}) {
      const std::string runs = fmt::format("step{}threads{}", step, count);
      copy_back_to(step, "whole", runs);
      ASSERT_EQ(run(runs, with(count), {"--resume"}).code, 0);
      expect_the_same(whole, left_by(run_in(runs)), runs);
    }
  }
}

}  // namespace
}  // namespace millrace::test::identity_test
