#include "training_passes.h"

#include <fmt/format.h>

#include "millrace/error.h"

namespace millrace::cuda {

// Libraries load their kernels in an executable's first pass, which must not be recorded.
bool TrainingPasses::wants_recording(const Executable& network) const { return records_ && network.passes > 0; }

std::unique_ptr<Recording> TrainingPasses::recording_of(const std::function<void()>& pass) {
  try {
    queue_.begin_recording();
    pass();
    return queue_.end_recording();
  } catch (const Error& error) {
    machine_.warn(fmt::format("{}: steps are submitted kernel by kernel, since they cannot be recorded: {}", machine_.info().name,
                              error.what()));
    records_ = false;
    return nullptr;
  }
}

void TrainingPasses::record_forward(Executable& network) {
  network.recorded.forward = recording_of([&] { network.forward(queue_); });
}

void TrainingPasses::record_backward(Executable& network, int buckets) {
  Executable::Recorded& recorded = network.recorded;
  recorded.filled.clear();
  recorded.backward =
      recording_of([&] { submit_backward(network, buckets, [&](int) { recorded.filled.push_back(queue_.recorded_mark()); }); });
}

void TrainingPasses::record(Executable& network, int buckets) {
  ++network.passes;
  if (records_) record_forward(network);
  if (records_) record_backward(network, buckets);
}

void TrainingPasses::submit_backward(Executable& network, int buckets, const std::function<void(int bucket)>& filled) {
  int next = 0;
  network.backward(queue_, [&](int node) {
    while (next < buckets && bucket_nodes_[static_cast<std::size_t>(next)] >= node) filled(next++);
  });
  while (next < buckets) filled(next++);
}

void TrainingPasses::forward(Executable& network) {
  if (!network.recorded.forward && wants_recording(network)) record_forward(network);
  if (network.recorded.forward)
    queue_.launch(*network.recorded.forward);
  else
    network.forward(queue_);
}

void TrainingPasses::backward(Executable& network, int buckets, const BucketFilled& filled) {
  Executable::Recorded& recorded = network.recorded;
  if (!recorded.backward && wants_recording(network)) record_backward(network, buckets);
  ++network.passes;
  if (!recorded.backward) {
    submit_backward(network, buckets, [&](int bucket) { filled(bucket, queue_.mark()); });
    return;
  }
  queue_.launch(*recorded.backward);
  for (int bucket = 0; bucket < buckets; ++bucket) filled(bucket, recorded.filled[static_cast<std::size_t>(bucket)]);
}

}  // namespace millrace::cuda
