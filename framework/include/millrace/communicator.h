// Sums over the replicas of a run. Communicators are plugins; `allreduce` selects one by name.
//
//   class Pair : public millrace::Communicator {  // two replicas of one process, by streams of their devices (backend/backend.h)
//    public:
//     explicit Pair(std::span<millrace::Device* const> devices) : stream_(devices[0]->make_stream("sum")) {}
//     void all_reduce(std::span<const millrace::Ref<millrace::GradientBucket>> buckets) override {
//       for (const auto& bucket : buckets) stream_->wait(bucket->ready);
//       const float* const both[] = {buckets[0]->data, buckets[1]->data};
//       stream_->sum(buckets[0]->data, both, buckets[0]->elements);
//       stream_->copy(buckets[1]->data, buckets[0]->data, buckets[0]->elements);
//       for (const auto& bucket : buckets) bucket->ready = stream_->record();
//     }
//    private:
//     std::unique_ptr<millrace::Stream> stream_;
//   };
//   MILLRACE_PLUGIN("pair", "1.0", "Sums of two replicas.") {
//     registry.add(millrace::CommunicatorType{
//         {"pair", "Two replicas."}, "cpu", [](const auto& setting) { return std::make_unique<Pair>(setting.devices); }});
//   }
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "millrace/batch.h"
#include "millrace/detail/type_description.h"

namespace millrace {

class Device;
class Group;  // util/group.h

// Has a stream for each local replica. Used by one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Sums one bucket over all replicas of all processes, in place; the result has the same bits everywhere. `buckets`: one for
  // each local replica, in order. The streams wait for each `ready`; afterwards `ready` signals that the sum is complete.
  virtual void all_reduce(std::span<const Ref<GradientBucket>> buckets) = 0;

  // Throws Error(device) if a sum has failed; a sum whose event is complete can no longer fail. Thread-safe.
  virtual void check() {}
};

struct CommunicatorType : TypeDescription {
  std::string backend;  // the backend whose devices it supports; empty: it uses only Stream
  // One device per local replica. `group`: the run's processes, or null. There are `replicas` replicas in all; this process's
  // begin at `first_replica`. Throws Error(usage) for a group that it does not support.
  struct Setting {
    std::span<Device* const> devices;
    Group* group = nullptr;
    std::size_t first_replica = 0, replicas = 0;
  };
  std::function<std::unique_ptr<Communicator>(const Setting& setting)> create;
};

}  // namespace millrace
