// A simulated asynchronous device: wraps another backend and behaves like a GPU.
//
// Every replica's stream, and every stream made on a device, is a queue with its own thread that waits at random (seeded) before
// each piece of work. Calls return at once, events complete late, batches are read late. Every operation is checked against all
// others that touch the same gradients or parameters (see recording_order.h), every batch against refilling while a read of it
// is pending, and every update against another step's gradients. A training step without a violation is therefore correct on a
// GPU. Results are exactly those of the wrapped backend.
//
//   auto backend = std::make_shared<RecordingBackend>(make_plain_backend(), RecordingOptions{.seed = 7});
//   ... train ...
//   for (const Violation& violation : backend->violations()) ADD_FAILURE() << violation.text();
//
// Operations are named after the stage that submits them: "forward_backward.backward", "optimizer.update", and for a stream
// after its name, such as "allreduce.sum".
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/backend/backend.h"
#include "testkit/recording_order.h"

namespace millrace::testkit {

struct RecordingOptions {
  std::uint64_t seed = 1;
  std::chrono::microseconds longest_delay{200};  // before each piece of work

  // Planted faults: the n-th of its kind, counted from 1 over the whole backend in order of submission; 0: none.
  std::uint64_t leave_out_wait = 0;       // Stream::wait does nothing
  std::uint64_t release_batch_early = 0;  // Replica::ingest releases the batch before it has read it
  std::uint64_t ignore_after = 0;         // Replica::update does not wait for `after`
};

class Recorder;

class RecordingBackend : public Backend {
 public:
  explicit RecordingBackend(std::shared_ptr<Backend> inner, const RecordingOptions& options = {});
  std::string name() const override { return "recording"; }
  std::vector<DeviceInfo> devices() override;
  std::string unavailable_reason() override { return inner_->unavailable_reason(); }
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override;

  std::vector<Violation> violations() const;  // so far

 private:
  std::shared_ptr<Backend> inner_;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace millrace::testkit
