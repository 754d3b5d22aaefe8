// Common parts of this folder's tests: the backend under test, its oracle, and a replica driven by hand.
//
// The backend under test is "cuda", or the one in MILLRACE_GPU_TEST_BACKEND ("cpu" shows on any machine that the tests
// themselves work). Without a device every test is skipped with its unavailable_reason(), never passed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/plugin.h"

namespace millrace::gpu {

using Arrays = std::vector<std::vector<float>>;  // by index into Network::parameters; may be empty

// Opens a device of both backends. Skips if there is none.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override;

  bool on_gpu() const;  // false: cpu is used instead, which works in order and has no device memory
  Backend& backend();
  const Registry& registry();  // all plugins
  Device& device() { return *device_; }
  Device& oracle() { return *oracle_; }  // backend "cpu"

 private:
  std::unique_ptr<Device> device_, oracle_;
};

// The folder of this build's or visit's pipelines: MILLRACE_PIPELINES, or the source tree's.
std::string pipelines_folder();

// Initial values drawn by testkit::randomise().
Arrays random_values(const Network& network, std::uint64_t seed);

// A random batch, in memory that the device reads fast, with windows, flips and borders drawn for every sample.
Ref<Batch> random_batch(Device& device, const Network& network, std::uint32_t size, std::uint64_t seed);

// Where a loss is measured (the network's result or another output), and its weight.
using LossOutput = std::pair<std::optional<LayerPort>, double>;

// A replica and a training step through the stages' interface.
class Trainee {
 public:
  Trainee(Device& device, std::shared_ptr<const Network> network, const CompileOptions& options, const Arrays& values,
          std::vector<LossOutput> outputs = {});

  // Ingest, forward, loss, backward, and the update at `rate`. Returns before the device has finished.
  Ref<Event> step(const Ref<Batch>& batch, std::uint64_t number, double rate);
  double loss();  // in the last step, per sample, at the first output; waits
  std::vector<float> logits() { return replica_->logits(); }
  Arrays values() { return all(kValue); }        // running statistics included
  Arrays gradients() { return all(kGradient); }  // trained parameters only
  Replica& replica() { return *replica_; }

 private:
  Arrays all(std::string_view state);

  std::shared_ptr<const Network> network_;
  std::vector<LossOutput> outputs_;
  std::vector<StepSums> sums_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace millrace::gpu
