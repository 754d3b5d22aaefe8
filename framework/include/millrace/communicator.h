// The processes of a run, and sums over its replicas. Communicators are plugins; `allreduce` asks for one by name.
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
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/batch.h"
#include "millrace/detail/type_description.h"
#include "millrace/error.h"

namespace millrace {

class Device;

// The processes that train together; this one is number rank() of size(). Replicas are numbered through all processes, in order
// of rank. What one sends on a channel the other receives on the same channel, in order.
//
// Threading: any number of threads; one at a time for each channel. Errors: ErrorKind::peer naming the rank that is gone or has
// been silent for too long, or what another rank says has ended it; after the first, every call throws.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns when the bytes are on their way; waits for no call of receive().
  virtual void send(int to, std::uint32_t channel, std::span<const std::byte> bytes) = 0;
  // Waits for the next message. Its bytes replace those of `into`, whose capacity is reused.
  virtual void receive(int from, std::uint32_t channel, std::vector<std::byte>& into) = 0;
  // Tells all others that this process ends, and why; null: in good order. What they wait for throws: a mistake of the command
  // line, the file or the data (ErrorKind usage, data), which would end a new start too, as that, and anything else as
  // ErrorKind::peer.
  virtual void leave(const Error* why) noexcept = 0;

  // ---- Made of these. Every rank calls them, in the same order on a channel ----

  std::vector<std::vector<std::byte>> all_gather(std::uint32_t channel, std::span<const std::byte> mine);  // by rank
  void broadcast(std::uint32_t channel, int root, std::vector<std::byte>& bytes);
  void barrier(std::uint32_t channel) { all_gather(channel, {}); }

  // Channels of the framework; a plugin takes others, from kFirstFree on.
  // kSteps is that of the first graph, kSteps + 1 of the second one, ...
  enum Channel : std::uint32_t { kRun, kReports, kExchange, kGradients, kSteps = 16, kFirstFree = 64 };
};

// Has a stream for each local replica. One thread at a time submits to it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Sums one bucket over all replicas of all processes, in place, to the same bits everywhere. `buckets`: that bucket of every
  // local replica, in replica order. Waits on its streams for each `ready`, and replaces it by the event after which the sum is
  // there.
  virtual void all_reduce(std::span<const Ref<GradientBucket>> buckets) = 0;

  // Throws Error(device) if a sum has failed; one whose event is complete can no longer fail. Thread-safe.
  virtual void check() {}
};

struct CommunicatorType : TypeDescription {
  std::string backend;  // whose devices it is made for; empty: it needs no more than Stream
  // One device per local replica. `group`: the processes of the run, or null. All have `replicas` replicas, and this one those
  // from `first_replica` on. Throws Error(usage) for a group that it cannot serve.
  struct Setting {
    std::span<Device* const> devices;
    Group* group = nullptr;
    std::size_t first_replica = 0, replicas = 0;
  };
  std::function<std::unique_ptr<Communicator>(const Setting& setting)> create;
};

}  // namespace millrace
