// Messages between the processes of a run, for communicators and stages (StageSite::group).
//
//   for (const auto& bytes : group.all_gather(channel, mine)) add(bytes);  // one for each rank, in order
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/error.h"

namespace millrace {

// The processes that train together; this one is number rank() of size(). Replicas are numbered across all processes, in order of
// rank. Messages arrive on the channel they were sent on, in order.
//
// Threading: any number of threads; one at a time for each channel. Errors: ErrorKind::peer naming the rank that exited or timed
// out, or the error reported by another rank; after the first error, every call throws.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns once the bytes are on their way, without waiting for receive().
  virtual void send(int to, std::uint32_t channel, std::span<const std::byte> bytes) = 0;
  // Waits for the next message and stores it in `into`, whose capacity is reused.
  virtual void receive(int from, std::uint32_t channel, std::vector<std::byte>& into) = 0;
  // Informs all others that this process ends, and why; null: in good order. Their pending calls throw. Errors of the command
  // line, the file or the data (ErrorKind usage, data, content), which would also end a new start, arrive as usage or data; those
  // of a disk, a server or numbers (storage, unreachable, run) keep their kind; all others arrive as ErrorKind::peer.
  virtual void leave(const Error* why) noexcept = 0;

  // ---- Built on these. Every rank calls them, in the same order on a channel ----

  std::vector<std::vector<std::byte>> all_gather(std::uint32_t channel, std::span<const std::byte> mine);  // by rank
  void broadcast(std::uint32_t channel, int root, std::vector<std::byte>& bytes);
  void barrier(std::uint32_t channel) { all_gather(channel, {}); }

  // Channels of the framework; plugins use those from kFirstFree on. kSteps belongs to the first graph, kSteps + 1 to the second,
  // ...
  enum Channel : std::uint32_t { kRun, kReports, kExchange, kGradients, kSteps = 16, kFirstFree = 64 };
};

}  // namespace millrace
