// The processes of a run, as communicators and stages speak through them (StageSite::group).
//
//   for (const auto& bytes : group.all_gather(channel, mine)) add(bytes);  // of all ranks, in their order
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/error.h"

namespace millrace {

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
  // line, the file or the data (ErrorKind usage, data, content), which would end a new start too, as usage or data; a disk, a
  // server or numbers (storage, unreachable, run) as what they are; and anything else as ErrorKind::peer.
  virtual void leave(const Error* why) noexcept = 0;

  // ---- Made of these. Every rank calls them, in the same order on a channel ----

  std::vector<std::vector<std::byte>> all_gather(std::uint32_t channel, std::span<const std::byte> mine);  // by rank
  void broadcast(std::uint32_t channel, int root, std::vector<std::byte>& bytes);
  void barrier(std::uint32_t channel) { all_gather(channel, {}); }

  // Channels of the framework; a plugin takes others, from kFirstFree on.
  // kSteps is that of the first graph, kSteps + 1 of the second one, ...
  enum Channel : std::uint32_t { kRun, kReports, kExchange, kGradients, kSteps = 16, kFirstFree = 64 };
};

}  // namespace millrace
