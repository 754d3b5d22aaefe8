// Trials of engines on a fake runtime: failures, errors that the device does not survive, and lack of memory.
#include <algorithm>
#include <functional>
#include <limits>

#include "fake_runtime_fixture.h"
#include "runtime/engine_trial.h"

namespace millrace::cuda {
namespace {

// An engine of an imaginary library.
struct TriedEngine final : DevicePlan {
  explicit TriedEngine(std::function<void(Queue&)> does) : run(std::move(does)) {}
  std::size_t workspace() const override { return 300; }
  std::string engine() const override { return "engine 7"; }
  void execute(const LibraryRun& work, CudaStream&, Queue& queue) const override {
    EXPECT_NE(work.workspace, nullptr);
    run(queue);
  }
  std::function<void(Queue&)> run;
};

class TrialOnFakeRuntime : public OnFakeRuntime {
 protected:
  static TrialOperands operands() { return {.x = {40000, DataType::bf16}, .w = {256}, .y = {512}, .bias = {}}; }
  std::optional<double> tried(const std::function<void(Queue&)>& run, bool timed = false) {
    EngineTrial trial(*machine_, *queue_, operands());
    return trial.run(TriedEngine(run), timed, why_not_);
  }
  std::string why_not_;
};

TEST_F(TrialOnFakeRuntime, RunsAnEngineOnceAndGivesItsMemoryBack) {
  const int before = fake::open_things();
  int runs = 0;
  EXPECT_EQ(tried([&](Queue&) { ++runs; }), 0);
  EXPECT_EQ(runs, 1);
  const auto calls = fake::calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "free on 1"), 2);  // operands and workspace
  EXPECT_LE(fake::open_things(), before + 1);                         // a spare event
}

TEST_F(TrialOnFakeRuntime, AnEngineThatFailsIsNoErrorOfTheDevice) {
  EXPECT_FALSE(tried([](Queue&) { fail(ErrorKind::device, "cudnnBackendExecute failed"); }));
  EXPECT_EQ(why_not_, "cudnnBackendExecute failed");
  fake::fail_next("launch convert", cudaErrorLaunchOutOfResources);
  EXPECT_FALSE(tried([](Queue& queue) { queue.run(FloatToBf16{}); }));
  EXPECT_TRUE(tried([](Queue& queue) { queue.run(FloatToBf16{}); }));  // the next one is not affected
}

TEST_F(TrialOnFakeRuntime, NamesTheEngineThatTheDeviceDidNotSurvive) {
  const std::string text = message_of([&] { tried([](Queue&) { fake::fail_work(cudaErrorLaunchFailure); }); });
  EXPECT_TRUE(contains(text, "engine 7 was tried on scratch memory, and the device has failed since")) << text;
  EXPECT_TRUE(contains(text, "cudaErrorLaunchFailure")) << text;
}

TEST_F(TrialOnFakeRuntime, WithoutTheMemoryNothingIsTried) {
  fake::set_memory(30000, 1 << 20);
  EXPECT_EQ(tried([](Queue&) { ADD_FAILURE() << "was run"; }), std::numeric_limits<double>::infinity());
}

TEST_F(TrialOnFakeRuntime, TimesRunsOfLoadedCodeWhoseOperandsTheCacheDoesNotHold) {
  const auto seconds = tried([](Queue& queue) { queue.run(FloatToBf16{}); }, true);
  ASSERT_TRUE(seconds);
  EXPECT_DOUBLE_EQ(*seconds, 0.001);  // this runtime's marks are a millisecond apart
  std::vector<std::string> expected = {"launch convert on 2", "record on 2", "allocate 8192 on 1"};  // untimed
  std::vector<std::string> calls = fake::calls();
  const auto first = std::find(calls.begin(), calls.end(), expected.front());
  ASSERT_NE(first, calls.end());
  calls.erase(calls.begin(), first);
  std::erase_if(calls, [](const std::string& call) {
    return call.starts_with("synchronise") || !(call.ends_with(" on 2") || call.starts_with("allocate"));
  });
  for (int i = 0; i < 5; ++i) {
    for (const char* call : {"zero 8192 on 2", "record on 2", "launch convert on 2", "record on 2"}) expected.emplace_back(call);
  }
  EXPECT_EQ(calls, expected);
}

TEST_F(TrialOnFakeRuntime, TimesWithTheCacheAsItIsWhereItsSizeDoesNotFit) {
  const auto seconds = tried([](Queue&) { fake::set_memory(1, 1 << 20); }, true);  // after the engine's own memory was taken
  ASSERT_TRUE(seconds) << why_not_;
  EXPECT_FALSE(fake::called("zero 8192 on 2"));
}

}  // namespace
}  // namespace millrace::cuda
