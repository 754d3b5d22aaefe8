// A machine with two queues and some memory, for this folder's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simulation/simulated_machine.h"

namespace millrace::cuda {

// Blocks a queue until it is opened.
class Gate : public Event {
 public:
  bool complete() const override { return open_; }
  void wait() const override { open_.wait(false); }
  void then(Callback done) override { done(nullptr); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_ = false;
};

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() { start({}); }

  void start(const SimulationOptions& options) {
    a.reset();
    b.reset();
    simulation = std::make_shared<Simulation>(options);
    machine = std::make_shared<SimulatedMachine>(simulation, 0);
    a = machine->make_queue("a");
    b = machine->make_queue("b");
  }

  float* floats(std::size_t count, const std::string& what = "values") {
    return reinterpret_cast<float*>(machine->allocate(count * sizeof(float), what));
  }
  float* pinned(std::size_t count) { return reinterpret_cast<float*>(machine->allocate_host(count * sizeof(float))); }
  static Scale<float> doubling(const float* x, float* y, std::int64_t elements = kPack) {
    Scale<float> scale;
    scale.x = x;
    scale.y = y;
    scale.packs = elements / kPack;
    scale.factor = 2;
    return scale;
  }
  std::vector<float> contents(const float* device, std::size_t count) {
    machine->finish();
    return {device, device + count};
  }

  std::vector<std::string> kinds() const {
    std::vector<std::string> result;
    for (const testkit::Violation& violation : simulation->violations()) result.push_back(violation.kind);
    return result;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> result;
    for (const testkit::Violation& violation : simulation->violations()) result.push_back(describe(violation));
    return result;
  }
  void expect_clean() const { EXPECT_EQ(texts(), std::vector<std::string>()); }
  void expect_only(const std::string& kind, std::size_t times = 1) const {
    EXPECT_EQ(kinds(), std::vector<std::string>(times, kind)) << testing::PrintToString(texts());
  }

  std::shared_ptr<Simulation> simulation;
  std::shared_ptr<SimulatedMachine> machine;
  std::unique_ptr<Queue> a, b;
};

}  // namespace millrace::cuda
