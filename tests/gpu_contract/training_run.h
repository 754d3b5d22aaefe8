// The stages of a training step, from the built plugins, on one thread and without a graph: their submissions to a device, in a
// fixed order, are the same in every run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/detail/value.h"
#include "testkit/harness.h"

namespace millrace::testkit {

struct TrainingSetup {
  int replicas = 2;
  std::vector<double> load;
  std::uint64_t steps = 6;
  std::uint32_t batch = 12;
  std::size_t buffers = 2;       // circulating batches
  std::size_t bucket_bytes = 1;  // one parameter per bucket
  Value optimizer;               // the stages' tables
  Value forward_backward;
};

struct TrainingResult {
  std::vector<std::vector<std::vector<float>>> values;  // by replica and parameter
  std::vector<RecordedRun::Report> reports;             // by step
};

// Trains small_network() on drawn pixels and labels. Rethrows errors of a stage or the device.
TrainingResult train(Backend& backend, const TrainingSetup& setup);

}  // namespace millrace::testkit
