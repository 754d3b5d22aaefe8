// Work that is recorded once and launched repeatedly.
#include <algorithm>
#include <cmath>
#include <thread>

#include "millrace/error.h"
#include "simulation/simulation_fixture.h"

namespace millrace::cuda {
namespace {

class Recordings : public SimulationTest {
 protected:
  void prepare() {
    x = floats(8, "x");
    y = floats(8, "y");
  }
  std::unique_ptr<Recording> record() {
    a->begin_recording();
    a->run(doubling(x, x));
    half = a->recorded_mark();
    a->run(doubling(x, y));
    return a->end_recording();
  }
  float *x = nullptr, *y = nullptr;
  Ref<Mark> half;
};

TEST_F(Recordings, NothingRunsBeforeTheLaunch) {
  prepare();
  const std::vector<float> ones(8, 1.0F);
  a->copy_in(x, ones.data(), 32);
  const std::unique_ptr<Recording> recording = record();
  EXPECT_EQ(contents(x, 8), ones);
  for (int i = 0; i < 3; ++i) a->launch(*recording);
  EXPECT_EQ(contents(x, 8), std::vector<float>(8, 8.0F));
  EXPECT_EQ(contents(y, 8), std::vector<float>(8, 16.0F));
  expect_clean();
}

TEST_F(Recordings, ARecordingMayGoWhileItRuns) {
  start({.longest_delay = std::chrono::microseconds(5000), .delay_one_in = 1});
  prepare();
  const std::vector<float> ones(8, 1.0F);
  a->copy_in(x, ones.data(), 32);
  std::unique_ptr<Recording> recording = record();
  a->launch(*recording);
  recording.reset();
  EXPECT_EQ(contents(y, 8), std::vector<float>(8, 4.0F));
}

TEST_F(Recordings, EveryLaunchSetsItsMarks) {
  prepare();
  const std::unique_ptr<Recording> recording = record();
  EXPECT_TRUE(half->complete()) << "nothing to wait for yet";
  for (int step = 0; step < 3; ++step) {
    a->launch(*recording);
    b->wait(half);
    b->zero(x, 32);
    a->wait(b->mark());
  }
  machine->finish();
  expect_only("missing wait", 3);  // the second half of the recording reads x after the mark
  EXPECT_EQ(texts()[0], "missing wait: b.zero (work 3) uses 'x' without waiting for a.scale (work 2)");
}

TEST_F(Recordings, AMarkOfTheLaunchBeforeIsNotEnough) {
  prepare();
  float* seen = floats(8, "seen");
  const std::unique_ptr<Recording> recording = record();
  a->launch(*recording);
  b->wait(half);
  b->run(doubling(x, seen));
  expect_clean();
  a->wait(b->mark());
  a->launch(*recording);
  b->run(doubling(x, seen));
  expect_only("missing wait");
}

TEST_F(Recordings, HazardsAreCheckedAtEveryLaunch) {
  prepare();
  const std::unique_ptr<Recording> recording = record();
  a->launch(*recording);
  expect_clean();
  b->wait(a->mark());
  b->zero(x, 32);
  a->launch(*recording);
  ASSERT_FALSE(kinds().empty());
  EXPECT_EQ(texts()[0], "missing wait: a.scale (work 4) uses 'x' without waiting for b.zero (work 3)");
}

TEST_F(Recordings, ALaunchMayBeOnAnotherQueue) {
  prepare();
  const std::vector<float> ones(8, 1.0F);
  b->copy_in(x, ones.data(), 32);
  const std::unique_ptr<Recording> recording = record();
  b->launch(*recording);
  EXPECT_EQ(contents(y, 8), std::vector<float>(8, 4.0F));
  expect_clean();
}

TEST_F(Recordings, ReportWhatTheyCannotHold) {
  prepare();
  const std::vector<float> host(8);
  const Ref<Mark> outside = b->mark();
  machine->finish();
  a->begin_recording();
  a->wait(outside);
  expect_only("inside a recording");
  a->wait(a->recorded_mark());
  expect_only("inside a recording");
  a->mark();
  a->copy_in(x, host.data(), 32);
  machine->allocate(8, "more");
  outside->complete();
  outside->wait();
  machine->finish();
  expect_only("inside a recording", 7);
  std::thread([&] { machine->finish(); }).join();
  expect_only("inside a recording", 7);  // other threads are not restricted
  a->end_recording();
  machine->finish();
  expect_only("inside a recording", 7);
}

TEST_F(Recordings, BeginAndEndGoTogether) {
  prepare();
  EXPECT_THROW(a->end_recording(), Error);
  EXPECT_THROW(a->recorded_mark(), Error);
  const std::unique_ptr<Recording> recording = record();
  a->begin_recording();
  EXPECT_THROW(a->begin_recording(), Error);
  EXPECT_THROW(a->launch(*recording), Error);
  a->end_recording();
}

TEST_F(Recordings, MemoryMustOutliveThem) {
  prepare();
  const std::unique_ptr<Recording> recording = record();
  machine->release(reinterpret_cast<std::byte*>(y));
  a->launch(*recording);
  expect_only("illegal address");
  EXPECT_THROW(machine->finish(), Error);
}

TEST_F(Recordings, PinnedMemoryIsReadAtEveryLaunch) {
  prepare();
  float* host = pinned(8);
  a->begin_recording();
  a->copy_in(x, host, 32);
  const std::unique_ptr<Recording> recording = a->end_recording();
  for (int step = 0; step < 3; ++step) {
    machine->host_access(host, 32, true);
    std::fill_n(host, 8, static_cast<float>(step));
    a->launch(*recording);
    a->mark()->wait();
    EXPECT_EQ(x[0], static_cast<float>(step));
  }
  expect_clean();
}

class RecordedArena : public Recordings {
 protected:
  void prepare_arena() {
    arena = machine->allocate(256, "activations");
    x = reinterpret_cast<float*>(arena);
    y = x + 8;
  }
  void declare() { machine->declare_arena(arena, {{0, 32, 0, 2, "x"}, {32, 32, 1, 2, "y"}}); }
  std::unique_ptr<Recording> record_step(bool too_late = false) {
    a->begin_recording();
    machine->set_time(*a, arena, 1);
    a->run(doubling(x, y));
    machine->set_time(*a, arena, too_late ? 3 : 2);
    a->run(doubling(y, y));
    return a->end_recording();
  }
  void fill() {
    machine->set_time(*a, arena, 0);
    a->zero(x, 32);
  }
  std::byte* arena = nullptr;
};

TEST_F(RecordedArena, KeepsTimesOfItsOwn) {
  prepare_arena();
  declare();
  const std::unique_ptr<Recording> recording = record_step();
  for (int step = 0; step < 3; ++step) {
    fill();
    a->launch(*recording);
  }
  expect_clean();
  machine->set_time(*a, arena, 0);
  machine->set_time(*a, arena, 1);
  a->launch(*recording);
  expect_only("read before written");
}

TEST_F(RecordedArena, LifetimesAreCheckedWhenItIsMade) {
  prepare_arena();
  declare();
  const std::unique_ptr<Recording> recording = record_step(true);
  expect_only("wrong lifetime", 2);
  fill();
  a->launch(*recording);
  expect_only("wrong lifetime", 2);
}

TEST_F(RecordedArena, ALaunchBringsItsDeclarationBack) {
  prepare_arena();
  declare();
  const std::unique_ptr<Recording> recording = record_step();
  fill();
  a->launch(*recording);
  machine->declare_arena(arena, {{0, 64, 0, 0, "other"}});
  machine->set_time(*a, arena, 0);
  a->zero(arena, 64);
  expect_clean();
  a->launch(*recording);
  expect_only("read before written");  // reads x, which the other plan has overwritten
}

TEST_F(RecordedArena, PoisonsAtEveryLaunch) {
  prepare_arena();
  declare();
  a->begin_recording();
  machine->set_time(*a, arena, 0);
  a->zero(x, 16);
  const std::unique_ptr<Recording> recording = a->end_recording();
  for (int step = 0; step < 2; ++step) {
    a->launch(*recording);
    machine->finish();
    EXPECT_TRUE(std::isnan(x[7]));
    machine->set_time(*a, arena, 2);
    a->zero(x, 32);
  }
  expect_clean();
}

}  // namespace
}  // namespace millrace::cuda
