// Ordering of two pieces of work, and the report if nothing orders them.
#include <algorithm>
#include <chrono>
#include <thread>

#include "simulation/simulation_fixture.h"

namespace millrace::cuda {
namespace {

using Order = SimulationTest;

TEST_F(Order, AQueueIsInOrderAndComputes) {
  float* x = floats(8);
  float* y = floats(8);
  const std::vector<float> host(8, 3.0F);
  a->copy_in(x, host.data(), 32);
  a->run(doubling(x, y));
  a->run(doubling(y, y));
  std::vector<float> result(8);
  a->copy_out(result.data(), y, 32);
  machine->finish();
  EXPECT_EQ(result, std::vector<float>(8, 12.0F));
  expect_clean();
}

TEST_F(Order, ReportsAReadOnAnotherQueueThatDoesNotWait) {
  float* x = floats(8, "x");
  float* y = floats(8, "y");
  a->zero(x, 32);
  b->run(doubling(x, y));
  expect_only("missing wait");
  EXPECT_EQ(texts()[0], "missing wait: b.scale (work 2) uses 'x' without waiting for a.zero (work 1)");
}

TEST_F(Order, ReportsWritesThatDoNotWait) {
  float* x = floats(8);
  float* y = floats(8);
  a->copy(y, x, 32);
  b->zero(x, 32);  // being read
  b->zero(y, 32);  // being written
  expect_only("missing wait", 2);
}

TEST_F(Order, AMarkOrdersWhatWasBeforeIt) {
  float* x = floats(8);
  float* y = floats(8);
  const std::vector<float> host(8, 3.0F);
  a->copy_in(x, host.data(), 32);
  const Ref<Mark> filled = a->mark();
  b->wait(filled);
  b->wait(nullptr);
  b->run(doubling(x, y));
  EXPECT_EQ(contents(y, 8), std::vector<float>(8, 6.0F));
  expect_clean();
}

TEST_F(Order, AMarkSaysNothingOfWhatComesAfterIt) {
  float* x = floats(8);
  const Ref<Mark> early = a->mark();
  a->zero(x, 32);
  b->wait(early);
  b->zero(x, 32);
  expect_only("missing wait");
}

TEST_F(Order, DisjointBytesOfOneAllocationNeedNoOrder) {
  float* x = floats(16);
  a->zero(x, 32);
  b->zero(x + 8, 32);
  expect_clean();
  b->zero(x + 7, 4);
  expect_only("missing wait");
}

TEST_F(Order, ReadersNeedNoOrder) {
  float* x = floats(8);
  a->run(doubling(x, floats(8)));
  b->run(doubling(x, floats(8)));
  expect_clean();
}

TEST_F(Order, FinishOrdersEverything) {
  float* x = floats(8);
  a->zero(x, 32);
  machine->finish();
  b->zero(x, 32);
  expect_clean();
}

TEST_F(Order, WhatTheHostHasSeenOrders) {
  float* x = floats(8);
  a->zero(x, 32);
  const Ref<Mark> done = a->mark();
  while (!done->complete()) std::this_thread::yield();
  b->zero(x, 32);
  expect_clean();
}

TEST_F(Order, MachinesOfASimulationSeeEachOthersWork) {
  const auto other = std::make_shared<SimulatedMachine>(simulation, 1);
  const std::unique_ptr<Queue> far = other->make_queue("far");
  auto* sum = reinterpret_cast<float*>(other->allocate(32, "sum"));
  float* x = floats(8);
  a->zero(x, 32);
  const Ref<Mark> zeroed = a->mark();
  far->run(doubling(x, sum));
  expect_only("missing wait");
  far->wait(zeroed);
  far->run(doubling(x, sum));
  expect_only("missing wait");
  other->finish();
}

TEST_F(Order, ALeftOutWaitIsFound) {
  start({.leave_out_wait = 2});
  float* x = floats(8);
  for (int step = 0; step < 3; ++step) {
    a->zero(x, 32);
    b->wait(a->mark());
    b->zero(x, 32);
    a->wait(b->mark());
  }
  expect_only("missing wait");
  EXPECT_EQ(simulation->count(Count::waits), 6U);
}

// ---- The host and pinned memory ----

TEST_F(Order, TheHostMayTouchPinnedMemoryThatItHasSeenComplete) {
  float* x = floats(8);
  float* host = pinned(8);
  for (int step = 0; step < 4; ++step) {
    machine->host_access(host, 32, true);
    std::fill_n(host, 8, static_cast<float>(step));
    a->copy_in(x, host, 32);
    a->copy_out(host, x, 32);
    a->mark()->wait();
    machine->host_access(host, 32, false);
    EXPECT_EQ(host[7], static_cast<float>(step));
  }
  expect_clean();
}

TEST_F(Order, ReportsAHostThatRefillsABufferInFlight) {
  float* host = pinned(8);
  a->copy_in(floats(8), host, 32);
  machine->host_access(host, 32, true);
  expect_only("buffer reused in flight");
}

TEST_F(Order, ReportsAHostThatReadsTooEarly) {
  float* host = pinned(16);
  a->copy_out(host, floats(8), 32);
  machine->host_access(host + 8, 32, false);
  expect_clean();
  machine->host_access(host + 7, 4, false);
  expect_only("buffer reused in flight");
}

TEST_F(Order, TheHostMayReadWhatADeviceReads) {
  float* host = pinned(8);
  a->copy_in(floats(8), host, 32);
  machine->host_access(host, 32, false);
  expect_clean();
}

TEST_F(Order, FindsBytesThatChangeUnderACopyWithoutBeingTold) {
  float* x = floats(8);
  float* host = pinned(8);
  const auto gate = make_ref<Gate>();
  a->copy_in(x, host, 32);
  machine->finish();
  a->wait(gate);
  a->copy_in(x, host, 32);
  host[3] += 1;
  gate->open();
  machine->finish();
  expect_only("buffer reused in flight");
  EXPECT_EQ(texts()[0],
            "buffer reused in flight: a.copy in (work 2): bytes of 'pinned memory' changed after the call and before "
            "they were read");
}

TEST_F(Order, MemoryThatIsNotPinnedIsReadAtOnce) {
  float* x = floats(8);
  std::vector<float> host(8, 1.0F);
  a->copy_in(x, host.data(), 32);
  host.assign(8, 2.0F);
  EXPECT_EQ(contents(x, 8), std::vector<float>(8, 1.0F));
  expect_clean();
}

TEST_F(Order, ALeftOutHostWaitIsFound) {
  start({.leave_out_host_wait = 2});
  float* x = floats(8);
  float* host = pinned(8);
  for (int step = 0; step < 3; ++step) {
    machine->host_access(host, 32, true);
    a->copy_in(x, host, 32);
    a->mark()->wait();
  }
  expect_only("buffer reused in flight");
}

TEST_F(Order, ReportsMemoryReleasedInFlight) {
  float* x = floats(8, "x");
  float* y = floats(8, "y");
  a->zero(x, 32);
  a->zero(y, 32);
  machine->release(reinterpret_cast<std::byte*>(x));
  expect_only("released in flight");
  machine->finish();
  machine->release(reinterpret_cast<std::byte*>(y));
  expect_only("released in flight");
}

// Sooner or later they meet there.
TEST_F(Order, ReportsTwoThreadsInAQueue) {
  start({.longest_delay = std::chrono::microseconds(0)});
  float* x = floats(8);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto flood = [&] {
    while (simulation->violations().empty() && std::chrono::steady_clock::now() < give_up) {
      for (int i = 0; i < 1000; ++i) a->zero(x, 32);
      machine->finish();
    }
  };
  std::thread other(flood);
  flood();
  other.join();
  ASSERT_FALSE(kinds().empty());
  EXPECT_EQ(kinds()[0], "two threads in a queue");
}

}  // namespace
}  // namespace millrace::cuda
