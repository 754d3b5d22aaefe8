// Memory, errors, and a machine's description.
#include <algorithm>

#include "millrace/error.h"
#include "simulation/simulation_fixture.h"

namespace millrace::cuda {
namespace {

using MachineTest = SimulationTest;

template <class Call>
std::string message_of(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.message();
  }
  return "no error";
}

TEST_F(MachineTest, SaysWhatItIs) {
  const SimulatedMachine second(simulation, 1);
  EXPECT_EQ(second.info().backend, "cuda");
  EXPECT_EQ(second.info().index, 1);
  EXPECT_EQ(second.info().name, "simulated");
  EXPECT_EQ(second.info().memory, std::size_t{8} << 30);
  EXPECT_TRUE(second.checks());
}

TEST_F(MachineTest, MemoryIsZeroedAndAligned) {
  for (const std::size_t bytes : {1, 100, 5000}) {
    for (std::byte* memory : {machine->allocate(bytes, "some"), machine->allocate_host(bytes)}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
      EXPECT_TRUE(std::all_of(memory, memory + bytes, [](std::byte each) { return each == std::byte{0}; }));
    }
  }
}

TEST_F(MachineTest, RunsOutOfMemoryAsADeviceDoes) {
  start({.memory = 10 << 20});
  std::byte* weights = machine->allocate(6 << 20, "weights");
  EXPECT_EQ(machine->free_memory(), std::size_t{4} << 20);
  const SimulatedMachine other(simulation, 1);
  EXPECT_EQ(
      message_of(ErrorKind::device, [&] { machine->allocate(5 << 20, "activations"); }),
      "out of memory on cuda:0 (simulated): activations needs 5.0 MiB, 4.0 of 10.0 MiB are free; held: weights 6.0 MiB; use a "
      "smaller batch");
  machine->release(weights);
  machine->release(machine->allocate(10 << 20, "activations"));
  machine->release(nullptr);
  expect_clean();
}

TEST_F(MachineTest, WorkOnMemoryThatIsNotTheDevicesFails) {
  std::vector<float> host(8);
  a->zero(host.data(), 32);
  expect_only("illegal address");
  EXPECT_NE(message_of(ErrorKind::device, [&] { machine->finish(); }).find("a.zero: illegal address: 32 bytes at "),
            std::string::npos);
}

TEST_F(MachineTest, WorkBeyondItsMemoryFails) {
  a->copy(floats(8, "x"), floats(16, "y"), 36);
  expect_only("illegal address");
  EXPECT_EQ(texts()[0], "illegal address: a.copy (work 0): bytes 0..36 of 'x', which is 32 bytes of device memory");
}

TEST_F(MachineTest, KernelsCannotUsePinnedMemory) {
  a->run(doubling(floats(8), pinned(8)));
  expect_only("illegal address");
}

TEST_F(MachineTest, ReleasedMemoryIsIllegal) {
  float* x = floats(8);
  machine->release(reinterpret_cast<std::byte*>(x));
  a->zero(x, 32);
  expect_only("illegal address");
  machine->release(reinterpret_cast<std::byte*>(x));
  expect_only("illegal address", 2);
}

TEST_F(MachineTest, FindsWritesAroundAnAllocation) {
  float* x = floats(8, "x");
  x[8] = 1;  // like a kernel that reports less than it does
  machine->finish();
  expect_only("written out of bounds");
}

TEST_F(MachineTest, AFailureEndsTheWorkButNoWaitHangs) {
  start({.fail_operation = 2});
  float* x = floats(8);
  const std::vector<float> host(8, 1.0F);
  a->copy_in(x, host.data(), 32);
  a->run(doubling(x, x));
  const Ref<Mark> failed = a->mark();
  b->wait(failed);
  b->run(doubling(x, x));
  bool called = false;
  const Ref<Mark> behind = b->mark();
  behind->then([&called](const Error* failure) { called = failure != nullptr; });
  EXPECT_EQ(message_of(ErrorKind::device, [&] { failed->wait(); }), "cuda:0: a.scale (work 2) failed");
  EXPECT_EQ(message_of(ErrorKind::device, [&] { behind->wait(); }), "cuda:0: a.scale (work 2) failed");
  EXPECT_TRUE(behind->complete());
  EXPECT_EQ(message_of(ErrorKind::device, [&] { machine->finish(); }), "cuda:0: a.scale (work 2) failed");
  EXPECT_EQ(message_of(ErrorKind::device, [&] { machine->finish(); }), "cuda:0: a.scale (work 2) failed") << "it stays so";
  EXPECT_TRUE(called);
  EXPECT_EQ(x[0], 1.0F) << "what comes after a failure is not done";
  expect_clean();
}

TEST_F(MachineTest, QueuesDoTheirWorkBeforeTheyGo) {
  float* x = floats(8);
  const std::vector<float> host(8, 5.0F);
  for (int i = 0; i < 50; ++i) a->copy_in(x, host.data(), 32);
  a.reset();
  EXPECT_EQ(x[0], 5.0F);
}

TEST_F(MachineTest, PlansOfEqualShapesAreMadeOnce) {
  LinearShape shape;
  shape.rows = 3;
  shape.in = shape.out = 8;
  const std::shared_ptr<const LibraryPlan> plan = machine->plan(shape, {});
  EXPECT_EQ(machine->plan(shape, {}), plan);
  shape.bias = true;
  EXPECT_NE(machine->plan(shape, {}), plan);
  shape.in = 9;
  EXPECT_EQ(message_of(ErrorKind::usage, [&] { machine->plan(shape, {}); }), "rows of 9 and 8 elements are not pitches");
}

}  // namespace
}  // namespace millrace::cuda
