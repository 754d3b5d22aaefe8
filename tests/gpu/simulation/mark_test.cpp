// Marks fulfil the contract of events in millrace/backend/backend.h.
#include <atomic>
#include <thread>

#include "simulation/simulation_fixture.h"

namespace millrace::cuda {
namespace {

class Marks : public SimulationTest {
 protected:
  Marks() { start({.longest_delay = std::chrono::microseconds(5000), .delay_one_in = 1}); }
};

TEST_F(Marks, AreNotCompleteBeforeTheWorkIsDone) {
  float* x = floats(8);
  const std::vector<float> host(8, 1.0F);
  const auto gate = make_ref<Gate>();
  a->wait(gate);
  a->copy_in(x, host.data(), 32);
  const Ref<Mark> mark = a->mark();
  EXPECT_FALSE(mark->complete());
  gate->open();
  mark->wait();
  EXPECT_TRUE(mark->complete());
  EXPECT_EQ(x[7], 1.0F);
}

TEST_F(Marks, CallOnceAndLate) {
  std::atomic<int> calls = 0;
  std::thread::id caller;
  const auto gate = make_ref<Gate>();
  a->wait(gate);
  const Ref<Mark> mark = a->mark();
  mark->then([&](const Error*) {
    caller = std::this_thread::get_id();
    ++calls;
  });
  EXPECT_EQ(calls, 0);
  gate->open();
  mark->wait();
  machine->finish();
  EXPECT_EQ(calls, 1);
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST_F(Marks, CallAtOnceWhenComplete) {
  const Ref<Mark> mark = a->mark();
  mark->wait();
  bool called = false;
  mark->then([&](const Error*) { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(Marks, KnowWhenTheyWereReached) {
  for (int i = 0; i < 20; ++i) {
    const Ref<Mark> first = a->timed_mark();
    const auto gate = make_ref<Gate>();
    a->wait(gate);
    const Ref<Mark> second = a->timed_mark();
    first->wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate->open();
    second->wait();
    EXPECT_GE(machine->seconds_between(*first, *second), 0.001);
    EXPECT_LT(machine->seconds_between(*first, *second), 3600.0);
  }
}

TEST_F(Marks, MayOutliveTheirMachine) {
  const Ref<Mark> mark = a->mark();
  a.reset();
  b.reset();
  machine.reset();
  simulation.reset();
  EXPECT_TRUE(mark->complete());
  mark->wait();
}

// A pool of one buffer: the callback takes it back before it is filled again.
TEST_F(Marks, ACallbackMayTakeABufferBack) {
  float* x = floats(8);
  float* host = pinned(8);
  std::atomic<bool> free = true;
  for (int step = 0; step < 3; ++step) {
    while (!free) std::this_thread::yield();
    free = false;
    machine->host_access(host, 32, true);
    a->copy_in(x, host, 32);
    a->mark()->then([&](const Error*) {
      machine->host_access(host, 32, true);
      free = true;
    });
  }
  machine->finish();
  expect_clean();
}

TEST_F(Marks, WhatACallbackDoesNotSayIsNotKnown) {
  float* host = pinned(8);
  std::atomic<bool> free = false;
  a->copy_in(floats(8), host, 32);
  a->mark()->then([&](const Error*) { free = true; });
  while (!free) std::this_thread::yield();
  machine->host_access(host, 32, true);
  expect_only("buffer reused in flight");
}

TEST_F(Marks, ACallbackKnowsNothingOfOtherQueues) {
  float* host = pinned(8);
  b->copy_in(floats(8), host, 32);
  const Ref<Mark> mark = a->mark();
  mark->then([&](const Error*) { machine->host_access(host, 32, true); });
  machine->finish();
  const std::vector<std::string> found = kinds();
  EXPECT_EQ(found, std::vector<std::string>(1, "buffer reused in flight"));
}

TEST_F(Marks, AnEarlyCallbackIsFound) {
  start({.longest_delay = std::chrono::microseconds(5000), .delay_one_in = 1, .call_back_early = 2});
  float* x = floats(8);
  float* host = pinned(8);
  for (int step = 0; step < 3; ++step) {
    std::atomic<bool> free = false;
    machine->host_access(host, 32, true);
    a->copy_in(x, host, 32);
    a->mark()->then([&](const Error*) {
      machine->host_access(host, 32, true);
      free = true;
    });
    while (!free) std::this_thread::yield();
  }
  machine->finish();
  expect_only("buffer reused in flight");
}

TEST_F(Marks, AQueueWaitsForEventsOfOthersToo) {
  const auto gate = make_ref<Gate>();
  a->wait(gate);
  const Ref<Mark> after = a->mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
  EXPECT_FALSE(after->complete());
  gate->open();
  after->wait();
}

}  // namespace
}  // namespace millrace::cuda
