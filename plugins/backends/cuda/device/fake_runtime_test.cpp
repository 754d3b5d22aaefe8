// The machine, its queues and its marks on a fake runtime: order of calls, failing captures, errors, memory.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "errors.h"
#include "fake_runtime_fixture.h"
#include "runtime/losses.h"

namespace millrace::cuda {
namespace {

struct TwoSteps final : DevicePlan {
  std::size_t workspace() const override { return 0; }
  std::string engine() const override { return "engine 7"; }
  void execute(const LibraryRun&, CudaStream&, Queue& queue) const override {
    queue.run(BiasActivate<float>{});
    queue.run(FloatToBf16{});
  }
};

// ---- Queues ----

TEST_F(OnFakeRuntime, SubmitsEverythingToItsStreamInOrder) {
  queue_->copy_in(&value_, &value_, 4);
  queue_->copy_in(&value_, &value_, 0);  // nothing to do
  queue_->run(Scale<float>{});
  const TwoSteps plan;
  queue_->run(LibraryRun{.plan = &plan});
  queue_->zero(&value_, 8);
  queue_->copy(&value_, &value_, 2);
  queue_->copy_out(&value_, &value_, 1);
  const std::vector<std::string> expected = {
      "make pool",           "copy 4 in on 2", "launch scale on 2",    "launch bias and activation on 2",
      "launch convert on 2", "zero 8 on 2",    "copy 2 anywhere on 2", "copy 1 out on 2"};
  EXPECT_EQ(fake::calls(), expected);
}

TEST_F(OnFakeRuntime, NamesDeviceQueueAndKernelOfALaunchThatFails) {
  fake::fail_next("launch scale", cudaErrorLaunchFailure);
  EXPECT_TRUE(contains(message_of([&] { queue_->run(Scale<float>{}); }),
                       "CUDA device 3, queue 'compute': launching kernel 'scale' failed: acted out (cudaErrorLaunchFailure; "));
  EXPECT_NO_THROW(queue_->run(Scale<float>{}));
}

TEST_F(OnFakeRuntime, NamesTheEngineOfAPlanThatFails) {
  fake::fail_next("launch convert", cudaErrorLaunchFailure);
  const TwoSteps plan;
  EXPECT_TRUE(contains(message_of([&] { queue_->run(LibraryRun{.plan = &plan}); }), "engine 7"));
}

TEST_F(OnFakeRuntime, FinishNamesTheQueueWhoseWorkFailed) {
  fake::fail_work(cudaErrorLaunchFailure);
  EXPECT_TRUE(contains(message_of([&] { machine_->finish(); }), "Acted 100 (cuda:3), queue 'compute': "));
}

// ---- Marks ----

TEST_F(OnFakeRuntime, AMarkIsCompleteWhenTheWorkBeforeItIs) {
  fake::hold();
  const Ref<Mark> mark = queue_->mark();
  EXPECT_FALSE(mark->complete());
  queue_->run(Scale<float>{});  // "not ready" is not an error of this launch
  fake::release();
  EXPECT_TRUE(mark->complete());
  EXPECT_NO_THROW(mark->wait());
}

TEST_F(OnFakeRuntime, ThenCallsAtOnceWhatIsCompleteAndLaterInOrderWhatIsNot) {
  int now = 0;
  queue_->mark()->then([&](const Error*) { now = 1; });
  EXPECT_EQ(now, 1);

  fake::hold();
  std::vector<int> order;
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) {
    queue_->mark()->then([&, i](const Error*) {
      order.push_back(i);
      ++done;
    });
  }
  EXPECT_EQ(done, 0);
  fake::release();
  while (done < 20) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(OnFakeRuntime, QueueCallsWhatWaitsBeforeItGoes) {
  fake::hold();
  std::atomic<int> done{0};
  const Ref<Mark> mark = queue_->mark();
  mark->then([&](const Error*) { ++done; });
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fake::release();
  });
  queue_.reset();
  EXPECT_EQ(done, 1);
  mark->then([&](const Error*) { ++done; });  // a mark outlives its queue
  EXPECT_EQ(done, 2);
  later.join();
}

TEST_F(OnFakeRuntime, AFailedDeviceCompletesMarksSoThatNobodyHangs) {
  fake::hold();
  const Ref<Mark> mark = queue_->mark();
  std::atomic<int> failed{0};
  const auto count = [&](const Error* failure) { failed += failure != nullptr && contains(failure->message(), "waiting for"); };
  mark->then(count);
  fake::fail_work(cudaErrorLaunchFailure);
  while (failed == 0) std::this_thread::yield();
  mark->then(count);  // at once, since it is complete
  EXPECT_EQ(failed, 2);
  EXPECT_TRUE(mark->complete());
  EXPECT_TRUE(contains(message_of([&] { mark->wait(); }), "waiting for the device"));
}

TEST_F(OnFakeRuntime, SumsOfADeviceThatHasFailedAreNotHandedOut) {
  SumsReturn back(*machine_);
  StepSums sums;
  const double device[2] = {};
  fake::hold();
  const Ref<Event> known = back.submit(*queue_, device, 2, sums);
  std::atomic<bool> failed{false};
  known->then([&](const Error* failure) { failed = failure != nullptr; });
  fake::fail_work(cudaErrorLaunchFailure);
  while (!failed) std::this_thread::yield();
  EXPECT_TRUE(known->complete());
  EXPECT_TRUE(sums.values.empty());
  EXPECT_TRUE(contains(message_of([&] { known->wait(); }), "waiting for the device"));
}

class HostEvent final : public Event {
 public:
  bool complete() const override { return true; }
  void wait() const override { ++waits; }
  void then(Callback done) override { done(nullptr); }
  mutable std::atomic<int> waits{0};
};

TEST_F(OnFakeRuntime, WaitsForMarksOnTheDeviceAndForOtherEventsOnTheHost) {
  const std::unique_ptr<Queue> other = machine_->make_queue("copy");
  queue_->wait(nullptr);
  EXPECT_FALSE(fake::called("wait on 2"));
  queue_->wait(other->mark());
  EXPECT_TRUE(fake::called("wait on 2"));
  const auto event = make_ref<HostEvent>();
  queue_->wait(event);
  EXPECT_EQ(event->waits, 1);
}

TEST_F(OnFakeRuntime, MarksReuseTheirEvents) {
  queue_->mark();
  const int before = fake::open_things();
  for (int i = 0; i < 100; ++i) queue_->mark();
  EXPECT_EQ(fake::open_things(), before);
}

// ---- Recordings ----

TEST_F(OnFakeRuntime, RecordsOnceAndLaunchesOften) {
  queue_->begin_recording();
  queue_->run(Scale<float>{});
  const Ref<Mark> mark = queue_->recorded_mark();
  queue_->run(Add<float>{});
  const std::unique_ptr<Recording> recording = queue_->end_recording();
  queue_->launch(*recording);
  queue_->launch(*recording);
  const std::vector<std::string> expected = {
      "make pool",   "begin capture on 2", "launch scale on 2", "record external on 2", "launch add on 2",   "end capture on 2",
      "instantiate", "upload on 2",        "launch graph on 2", "record on 2",          "launch graph on 2", "record on 2"};
  EXPECT_EQ(fake::calls(), expected);
}

// If the host is a step ahead of the device, CUDA's event refers to the second launch from then on.
TEST_F(OnFakeRuntime, TheHostLearnsOfALaunchThoughTheNextOneIsSubmitted) {
  queue_->begin_recording();
  queue_->run(Scale<float>{});
  const Ref<Mark> mark = queue_->recorded_mark();
  const std::unique_ptr<Recording> recording = queue_->end_recording();
  EXPECT_TRUE(mark->complete()) << "it was not launched yet";
  fake::hold();
  const Ref<Mark> before = queue_->mark();
  std::atomic<bool> both_launched{false};
  const auto called = std::make_shared<std::atomic<bool>>(false);  // the thread may outlive a test that fails
  before->then([&](const Error*) {                                 // on the thread that calls what comes next
    while (!both_launched) std::this_thread::yield();
  });
  queue_->launch(*recording);
  mark->then([called](const Error*) { *called = true; });
  const std::uint64_t first = fake::recorded();
  queue_->launch(*recording);
  both_launched = true;
  fake::finish_to(first);
  for (int i = 0; i < 2000 && !*called; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(*called);
  EXPECT_FALSE(mark->complete()) << "the second launch runs";
  fake::release();
  EXPECT_TRUE(mark->complete());
}

TEST_F(OnFakeRuntime, ARecordingThatACallFailsIsEndedAndNamesIt) {
  queue_->begin_recording();
  fake::fail_next("launch add", cudaErrorLaunchFailure);
  EXPECT_TRUE(contains(message_of([&] { queue_->run(Add<float>{}); }), "while recording 'add': launching kernel 'add' failed"));
  EXPECT_TRUE(fake::called("end capture on 2"));
  EXPECT_NO_THROW(queue_->mark());  // it is an ordinary queue again
}

TEST_F(OnFakeRuntime, ACallThatSilentlyBreaksARecordingIsNamed) {
  queue_->begin_recording();
  queue_->run(Scale<float>{});
  fake::invalidate_next("launch add");
  EXPECT_TRUE(contains(message_of([&] { queue_->run(Add<float>{}); }),
                       "while recording 'add': this call is forbidden in a stream capture"));
  EXPECT_TRUE(contains(message_of([&] { queue_->end_recording(); }), "end_recording() without begin_recording()"));
}

TEST_F(OnFakeRuntime, ARecordingThatCannotBeInstantiatedLeavesNothingBehind) {
  queue_->begin_recording();
  queue_->recorded_mark();
  fake::fail_next("instantiate", cudaErrorMemoryAllocation);
  EXPECT_TRUE(contains(message_of([&] { queue_->end_recording(); }), "cudaGraphInstantiate failed"));
  EXPECT_NO_THROW(queue_->mark());
}

TEST_F(OnFakeRuntime, RefusesWhatARecordingCannotHold) {
  const Ref<Mark> outside = queue_->mark();
  EXPECT_TRUE(contains(message_of([&] { queue_->recorded_mark(); }), "recorded_mark() outside a recording"));
  queue_->begin_recording();
  EXPECT_TRUE(contains(message_of([&] { queue_->mark(); }), "recorded_mark() is meant"));
  queue_->begin_recording();
  EXPECT_TRUE(contains(message_of([&] { queue_->wait(outside); }), "wait() within a recording"));
  queue_->begin_recording();
  EXPECT_TRUE(contains(message_of([&] { queue_->begin_recording(); }), "begin_recording() within a recording"));
}

TEST_F(OnFakeRuntime, AQueueThatGoesWhileRecordingEndsTheCapture) {
  queue_->begin_recording();
  queue_->recorded_mark();
  queue_.reset();
  EXPECT_TRUE(fake::called("end capture on 2"));
}

TEST_F(OnFakeRuntime, FinishPassesOverWhatIsBeingRecorded) {
  queue_->begin_recording();
  machine_->finish();
  EXPECT_FALSE(fake::called("synchronise on 2"));
}

// ---- Memory ----

TEST_F(OnFakeRuntime, ZeroesMemoryBeforeItHandsItOutAndWaitsForAllQueuesBeforeItTakesItBack) {
  std::byte* memory = machine_->allocate(1000, "weights");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  machine_->release(memory);
  const std::vector<std::string> expected = {"make pool",        "allocate 1000 on 1", "zero 1000 on 1",  "synchronise on 1",
                                             "synchronise on 2", "free on 1",          "synchronise on 1"};
  EXPECT_EQ(fake::calls(), expected);
}

// Freed memory may count as used until the host has observed its release.
TEST_F(OnFakeRuntime, GivesBackWhatNobodyUsesBeforeMemoryIsOut) {
  fake::fail_next("allocate 2000", cudaErrorMemoryAllocation);
  std::byte* memory = machine_->allocate(2000, "activations");
  EXPECT_NE(memory, nullptr);
  machine_->release(memory);
  const std::vector<std::string> expected = {"make pool",          "allocate 2000 on 1", "synchronise on 1", "trim pool",
                                             "allocate 2000 on 1", "zero 2000 on 1",     "synchronise on 1", "synchronise on 2",
                                             "free on 1",          "synchronise on 1"};
  EXPECT_EQ(fake::calls(), expected);
}

TEST_F(OnFakeRuntime, OutOfMemorySaysWhatWasWantedHeldAndFree) {
  fake::set_memory(30'000'000, 1 << 20);
  std::byte* weights = machine_->allocate(20'000'000, "weights");
  const std::string text = message_of([&] { machine_->allocate(40'000'000, "activations"); });
  EXPECT_TRUE(
      contains(text,
               "Acted 100 (cuda:3): out of memory: 'activations' needs 0.04 GB; this program holds 0.02 GB (weights 0.02 GB), "
               "0.01 GB of 1048.6 kB are free"))
      << text;
  EXPECT_EQ(machine_->free_memory(), 10'003'000U);  // including the pool's unused memory
  machine_->release(weights);
}

TEST_F(OnFakeRuntime, GivesMemoryBackThatCouldNotBeZeroed) {
  fake::fail_next("zero", cudaErrorLaunchFailure);
  EXPECT_TRUE(contains(message_of([&] { machine_->allocate(100, "weights"); }), "cudaMemsetAsync failed"));
  EXPECT_TRUE(fake::called("free on 1"));
}

TEST_F(OnFakeRuntime, HostMemoryIsZeroed) {
  std::byte* memory = machine_->allocate_host(100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(memory[i], std::byte{0});
  machine_->release_host(memory);
}

TEST_F(OnFakeRuntime, MachinesOfAGpuShareItsChoices) {
  CudaMachine other(gpu_);
  EXPECT_EQ(&machine_->choices(), &other.choices());
}

TEST_F(OnFakeRuntime, GpusOfAModelShareTheirChoices) {
  setenv("MILLRACE_CACHE", "/dev/null", 1);  // no file: the choices are shared in memory
  DeviceInfo info = gpu_->info();
  info.index += 1;
  info.uuid = "another";
  info.versions = {{"cuDNN", "9.19.0 (/usr/lib/libcudnn.so.9)"}};
  Gpu one(info, choices_.of(info));
  info.versions = {{"cuDNN", "9.19.0 (/opt/lib/libcudnn.so.9)"}};
  info.index += 1;
  Gpu two(info, choices_.of(info));
  one.choices().put("engine", "7");
  EXPECT_EQ(two.choices().find("engine"), "7");
  EXPECT_EQ(&one.choices(), &two.choices());
  info.versions = {{"cuDNN", "9.20.0 (/opt/lib/libcudnn.so.9)"}};
  EXPECT_NE(choices_.of(info).get(), &two.choices());
  info.name = "Acted 200";
  EXPECT_NE(choices_.of(info).get(), &two.choices());
  unsetenv("MILLRACE_CACHE");
}

// All machines of a GPU share one pool, and unused memory is returned when one of them is destroyed.
TEST_F(OnFakeRuntime, MachinesOfAGpuShareItsPool) {
  auto other = std::make_unique<CudaMachine>(gpu_);
  std::byte* memory = other->allocate(100, "weights of another");
  EXPECT_TRUE(contains(message_of([&] { machine_->allocate(2 << 20, "activations"); }), "weights of another"));
  other->release(memory);
  other.reset();
  EXPECT_EQ(fake::calls().back(), "trim pool");
  const auto calls = fake::calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "make pool"), 1);
  EXPECT_FALSE(fake::called("destroy pool"));
}

TEST_F(OnFakeRuntime, AStreamThatClosesSaysSoWhileItIsThere) {
  std::vector<std::string> order;
  {
    CudaStream stream(3, "short");
    stream.at_close([&] { order = fake::calls(); });
  }
  EXPECT_EQ(order.back(), "synchronise on 3");
}

TEST_F(OnFakeRuntime, AdmitsOtherDevicesToItsPool) {
  EXPECT_TRUE(gpu_->admit(1));
  EXPECT_TRUE(fake::called("admit device 1"));
}

TEST_F(OnFakeRuntime, ReachesItsOwnMemoryAndThatOfDevicesThatAdmitIt) {
  float memory = 0;
  fake::lie_on(3);
  EXPECT_TRUE(machine_->reaches(&memory));
  fake::lie_on(5);
  EXPECT_FALSE(machine_->reaches(&memory));
  gpu_->admitted_to(5);
  EXPECT_TRUE(machine_->reaches(&memory));
}

// A plain copy out of another device's pool fails unless that device has admitted this one.
TEST_F(OnFakeRuntime, CopiesBetweenDevicesThatDoNotReachEachOtherAsPeers) {
  float here = 0, there = 0;
  fake::lie_on(3, &here);
  fake::lie_on(5, &there);
  queue_->copy(&here, &there, 4);
  EXPECT_EQ(fake::calls().back(), "copy 4 from device 5 to 3 on 2");
  queue_->copy(&there, &here, 4);
  EXPECT_EQ(fake::calls().back(), "copy 4 from device 3 to 5 on 2");
  gpu_->admitted_to(5);
  queue_->copy(&here, &there, 4);
  EXPECT_EQ(fake::calls().back(), "copy 4 anywhere on 2");
}

TEST_F(OnFakeRuntime, AdmitsNobodyWhoKnowsNoPools) {
  fake::fail_next("admit device 1", cudaErrorNotSupported);
  EXPECT_FALSE(gpu_->admit(1));
}

// Waiting for a stream that another thread is capturing would break the capture.
TEST_F(OnFakeRuntime, FinishingWaitsForAnotherThreadsRecording) {
  queue_->begin_recording();
  machine_->finish();  // this thread's own is ignored
  std::atomic<bool> finished = false;
  std::thread other([&] {
    machine_->finish();
    finished = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(finished);
  const auto recording = queue_->end_recording();
  other.join();
  EXPECT_TRUE(finished);
}

TEST_F(OnFakeRuntime, NativeHandsOutAStreamWithMarks) {
  EXPECT_EQ(machine_->native("opencl"), nullptr);
  const auto* cuda = static_cast<const NativeCuda*>(machine_->native("cuda"));
  EXPECT_EQ(machine_->native("cuda"), cuda);
  EXPECT_EQ(cuda->device, 3);
  cuda->wait(cuda->stream, queue_->mark());
  EXPECT_TRUE(fake::called("wait on 3"));
  EXPECT_TRUE(cuda->record(cuda->stream)->complete());
}

}  // namespace
}  // namespace millrace::cuda
