// CudaDevice's streams and buffers, on the simulation.
#include "backend.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "simulation/simulated_machine.h"

namespace millrace::cuda {
namespace {

class CudaDeviceTest : public testing::Test {
 protected:
  ~CudaDeviceTest() override {
    arrays_.clear();
    for (const testkit::Violation& violation : machine_->violations()) ADD_FAILURE() << describe(violation);
  }

  // Device memory filled with `value`, value + 1, ...
  float* array(float value) {
    DeviceMemory& memory = arrays_.emplace_back(*machine_, kElements * sizeof(float), "array");
    const auto host = device_.host_buffer(kElements * sizeof(float));
    auto* values = reinterpret_cast<float*>(host.get());
    std::iota(values, values + kElements, value);
    machine_->host_access(values, kElements * sizeof(float), true);
    const auto queue = machine_->make_queue("fill");
    queue->copy_in(memory.data(), values, kElements * sizeof(float));
    queue->mark()->wait();
    return memory.as<float>();
  }
  std::vector<float> read(const float* memory) {
    std::vector<float> values(kElements);
    const auto host = device_.host_buffer(kElements * sizeof(float));
    const auto queue = machine_->make_queue("read");
    queue->copy_out(host.get(), memory, kElements * sizeof(float));
    queue->mark()->wait();
    machine_->host_access(host.get(), kElements * sizeof(float), false);
    std::memcpy(values.data(), host.get(), kElements * sizeof(float));
    return values;
  }
  // Element 1 of the sum of `count` arrays into the place-th of them; -1: into a separate array.
  float sum(int count, int place) {
    std::vector<const float*> sources;
    for (int i = 0; i < count; ++i) sources.push_back(array(static_cast<float>(i * 10)));
    float* destination = place < 0 ? array(-1000) : const_cast<float*>(sources[static_cast<std::size_t>(place)]);
    const auto stream = device_.make_stream("sum");
    stream->sum(destination, sources, kElements);
    stream->record()->wait();
    return read(destination)[1];
  }
  static float expected(int count) { return static_cast<float>(count * (count - 1) / 2 * 10 + count); }

  static constexpr std::size_t kElements = 37;
  std::shared_ptr<SimulatedMachine> machine_ = std::make_shared<SimulatedMachine>();
  CudaDevice device_{machine_};
  std::vector<DeviceMemory> arrays_;
};

TEST_F(CudaDeviceTest, SumsAnyNumberOfArrays) {
  for (const int count : {1, 2, 7, 8, 9, 15, 16, 17}) EXPECT_EQ(sum(count, -1), expected(count)) << count;
}

TEST_F(CudaDeviceTest, SumsIntoAnyOfItsSources) {
  for (const int place : {0, 3, 7, 8, 16}) EXPECT_EQ(sum(17, place), expected(17)) << place;
}

TEST(CudaDevices, SumOverOthersThatTheyCannotReach) {
  for (const bool peer_access : {true, false}) {
    const auto simulation = std::make_shared<Simulation>(SimulationOptions{.peer_access = peer_access});
    std::vector<std::shared_ptr<SimulatedMachine>> machines;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<DeviceMemory> arrays;
    std::vector<const float*> sources;
    constexpr std::size_t kElements = 16;
    for (int index = 0; index < 3; ++index) {
      machines.push_back(std::make_shared<SimulatedMachine>(simulation, index));
      devices.push_back(std::make_unique<CudaDevice>(machines.back()));
    }
    for (int i = 0; i < 10; ++i) {  // more than one launch can add
      SimulatedMachine& on = *machines[static_cast<std::size_t>(i) % 3];
      arrays.emplace_back(on, kElements * sizeof(float), "array");
      const auto host = devices[0]->host_buffer(kElements * sizeof(float));
      const std::vector<float> values(kElements, static_cast<float>(1 << i));
      std::memcpy(host.get(), values.data(), kElements * sizeof(float));
      machines[0]->host_access(host.get(), kElements * sizeof(float), true);
      const auto queue = on.make_queue("fill");
      queue->copy_in(arrays.back().data(), host.get(), kElements * sizeof(float));
      queue->mark()->wait();
      sources.push_back(arrays.back().as<float>());
    }
    {
      const auto stream = devices[0]->make_stream("sum");
      stream->sum(arrays[0].as<float>(), sources, kElements);
      stream->record()->wait();
      EXPECT_EQ(arrays[0].as<float>()[kElements - 1], 1023.0F);
    }
    arrays.clear();
    for (const testkit::Violation& violation : simulation->violations()) ADD_FAILURE() << describe(violation);
  }
}

// Memory predictions for a run exclude the sums.
TEST(CudaDevices, HoldFewMebibytesForSumsOfAnySize) {
  constexpr std::size_t kElements = (std::size_t{5} << 18) + 3;  // several pieces, the last one short
  for (const int count : {3, 12}) {
    const auto simulation = std::make_shared<Simulation>(SimulationOptions{.peer_access = false});
    const auto near = std::make_shared<SimulatedMachine>(simulation, 0), far = std::make_shared<SimulatedMachine>(simulation, 1);
    CudaDevice device(near);
    std::vector<DeviceMemory> arrays;
    std::vector<const float*> sources;
    const auto host = device.host_buffer(kElements * sizeof(float));
    auto* values = reinterpret_cast<float*>(host.get());
    for (int i = 0; i < count; ++i) {
      SimulatedMachine& on = i == 0 || i == 11 ? *near : *far;
      near->host_access(values, kElements * sizeof(float), true);
      for (std::size_t e = 0; e < kElements; ++e) values[e] = static_cast<float>(e % 1000 + static_cast<std::size_t>(i));
      arrays.emplace_back(on, kElements * sizeof(float), "array");
      const auto queue = on.make_queue("fill");
      queue->copy_in(arrays.back().data(), values, kElements * sizeof(float));
      queue->mark()->wait();
      sources.push_back(arrays.back().as<float>());
    }
    const std::size_t free = near->free_memory();
    float* const destination = const_cast<float*>(sources[count == 12 ? 11 : 0]);  // 11: one that a later launch adds
    const float first = static_cast<float>(count * (count - 1) / 2);
    {
      const auto stream = device.make_stream("sum");
      stream->sum(destination, sources, kElements);
      stream->record()->wait();
      EXPECT_LE(free - near->free_memory(), std::size_t{9} << 20);
      for (std::size_t e = 0; e < kElements; e += 509) {
        ASSERT_EQ(destination[e], first + static_cast<float>(count * static_cast<int>(e % 1000))) << e;
      }
    }
    arrays.clear();
    for (const testkit::Violation& violation : simulation->violations()) ADD_FAILURE() << describe(violation);
  }
}

TEST_F(CudaDeviceTest, ASumOfNothingIsZero) {
  float* destination = array(5);
  const auto stream = device_.make_stream("sum");
  stream->sum(destination, {}, kElements);
  stream->record()->wait();
  EXPECT_EQ(read(destination)[36], 0.0F);
}

TEST_F(CudaDeviceTest, StreamsCopyAndWaitForEachOther) {
  float *a = array(1), *b = array(100), *c = array(200);
  const auto first = device_.make_stream("first"), second = device_.make_stream("second");
  first->copy(b, a, kElements);
  second->wait(first->record());
  second->copy(c, b, kElements);
  second->wait(nullptr);
  second->record()->wait();
  EXPECT_EQ(read(c)[2], 3.0F);
}

TEST_F(CudaDeviceTest, BuffersAreZeroedAndOutliveTheDevice) {
  std::shared_ptr<std::uint8_t[]> buffer;
  {
    CudaDevice other(machine_);
    buffer = other.host_buffer(100);
  }
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(buffer[i], 0);
  EXPECT_NE(device_.host_buffer(0), nullptr);
}

}  // namespace
}  // namespace millrace::cuda
