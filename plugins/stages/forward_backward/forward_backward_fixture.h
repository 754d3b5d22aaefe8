// Replicas of a small network on the plain backend, and a batch for them.
#pragma once

#include <memory>
#include <vector>

#include "millrace/batch.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/plain.h"

namespace millrace::testkit {

struct Replicas {
  explicit Replicas(std::size_t count, std::vector<double> load = {}, std::uint32_t micro_batches = 1)
      : network(small_network({4, 4, 3}, 6, 5)) {
    for (std::size_t r = 0; r < count; ++r) {
      devices.push_back(make_plain_backend()->open(0, {}));
      CompileOptions options;
      options.bucket_bytes = 1;
      options.request.micro_batches = micro_batches;
      replicas.push_back(devices.back()->compile(network, options));
      replicas.back()->start();
      randomise(network, *replicas.back(), 3);
      context.replicas.push_back(replicas.back().get());
      context.devices.push_back(devices.back().get());
    }
    context.graph = "train";
    context.network = &network;
    context.registry = &testkit::loss_registry();
    context.load = std::move(load);
  }

  StepContext context_of(int replica) const {
    StepContext result = context;
    result.replica = replica;
    return result;
  }

  Network network;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Replica>> replicas;
  StepContext context;
};

inline Ref<Batch> random_batch(std::uint32_t size) {
  Ref<Batch> batch = make_batch(size, {4, 4, 3});
  batch->epoch = 1;
  batch->step = 4;
  batch->stream_hash = 99;
  fill_at_random(*batch, 5, 8);
  return batch;
}

}  // namespace millrace::testkit
