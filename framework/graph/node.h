// One stage instance as a oneTBB node, and the edges between nodes.
//
// A packet travels as a Message, which is trivially copyable: oneTBB copies messages into tasks and queues, and copying a Packet
// would touch the payload's reference count each time. A Message owns the references it was made with; exactly one body takes
// them over.
//
// The last packet that a stage sends inside process() can skip oneTBB: when process() has returned, the same thread runs the
// next stage. oneTBB does the same with a node's result (it "bypasses" the scheduler), but at a higher cost; and the samples
// stay in this core's cache. All other packets are put at once.
#pragma once

#include <oneapi/tbb/flow_graph.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/core.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"
#include "util/mutex.h"

namespace millrace::flow {

class Node;

// Keeps a serial stage serial: one packet at a time, in order of arrival. Thread-safe; the lock is held for a few instructions.
//
// function_node's own `serial` forwards the next message before it passes the last one's result to the successor, so that two
// serial stages in a row may swap packets; and a body that sends costs a second trip through the scheduler. Here the order holds
// from end to end, and a thread may continue with the next stage at once.
template <class Message>
class Mailbox {
 public:
  // True if idle: the caller must run `message`. False: it is queued.
  bool claim(const Message& message) {
    const Lock lock(mutex_);
    if (!busy_) return busy_ = true;
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = message;
    return false;
  }

  // When a message is done: true and the next one to run, or false if none is waiting.
  bool next(Message& message) {
    const Lock lock(mutex_);
    if (count_ == 0) return busy_ = false;
    message = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return true;
  }

 private:
  void grow() MILLRACE_REQUIRES(mutex_) {
    std::vector<Message> larger(ring_.empty() ? 8 : 2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
    ring_.swap(larger);
    first_ = 0;
  }

  Mutex mutex_;
  bool busy_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<Message> ring_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t first_ MILLRACE_GUARDED_BY(mutex_) = 0, count_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

// An edge of the plan: from an output port to an input port of one stage, with all its instances.
struct Link {
  enum class Carries { chunk, batch, other };

  std::string from, to;        // the stages' names
  std::vector<Node*> targets;  // one, or one per replica
  int port = 0;                // the targets' input port
  std::size_t number = 0;      // index among the graph's links
  Carries carries = Carries::other;
  bool carries_encoded = false;        // chunks of undecoded samples
  std::function<void(Packet)> divert;  // packets go here instead: the gate, or back to the source
  Counters counters;                   // packets: sent; samples: received; waited: between the two
  Node* bypass = nullptr;              // the target, if packets can skip oneTBB

  // Sends to all targets, or to the one named by the packet. Thread-safe.
  void send(Packet&& packet, const Node* sender);
  // Sends a packet that passed the gate, already stamped and counted.
  void pass(Packet packet);
  void drop(const Packet& packet);  // counts it as received
  std::uint64_t receivers(const Packet& packet) const { return packet.replica < 0 ? targets.size() : 1; }
  std::int64_t level() const;
};

struct Message {
  Payload* payload;
  Payload* token;
  Link* link;
  std::uint64_t sequence, stamp;
  std::span<const double> weights;
  std::uint32_t begin, count;
  std::int32_t replica;
};

class Node final : public Output {
 public:
  enum class Kind { source, parallel, serial };
  struct Place {
    std::string graph, name;
    int replica = -1;  // index of the instance; -1: there is only one
    int instances = 1;
    Position at = {};         // position of the stage's table
    bool is_of_step = false;  // its packets precede those of samples, since devices wait for it
  };

  Node(Core& core, std::shared_ptr<Stage> stage, Kind kind, Place place, std::size_t output_ports);

  void connect(int port, Link& link) { outputs_[static_cast<std::size_t>(port)].push_back(&link); }

  void emit(int port, Packet packet) override;
  void begin_hold() override { core_.graph.reserve_wait(); }
  void end_hold() override { core_.graph.release_wait(); }
  void fail(Error error) override;  // adds the stage's name

  void put(const Message& message);
  static const Place* running() noexcept;  // the node whose stage runs on this thread, or null. Async-signal-safe
  Stage& stage() const { return *stage_; }
  const Place& place() const { return place_; }
  Kind kind() const { return kind_; }
  // Counts one packet processed by this thread. `nanoseconds`: its thread_nanoseconds(); 0: not sampled.
  void count(int line, std::uint64_t ticks, std::uint64_t samples, std::uint64_t bytes, std::uint64_t nanoseconds);
  bool is_sampled() const;  // whether to read this thread's processor time, which costs more than counting
  // Share of the time in process() that threads computed instead of waiting, over sampled packets.
  double computing_share() const;
  Counters counters;
  ServiceTimes service;

 private:
  void run(Message message) noexcept;
  bool claim(const Message& message) { return kind_ != Kind::serial || mailbox_.claim(message); }
  void done();  // finishes a message, and continues with the next one
  void spawn(const Message& message);
  std::uint64_t process(const Link& link, Packet&& packet, std::uint64_t begin, int line) noexcept;
  [[gnu::cold, gnu::noinline]] std::uint64_t process_traced(const Link& link, Packet&& packet, std::uint64_t begin,
                                                            int line) noexcept;
  std::uint64_t samples_of(const Link& link, const Packet& packet) const;
  static std::uint64_t bytes_of(const Link& link, const Packet& packet);  // bytes of the packet's samples
  bool is_whole(const Packet& packet);  // otherwise the graph fails, since the stage wrote outside its slots

  Core& core_;
  std::shared_ptr<Stage> stage_;
  Kind kind_;
  Place place_;
  std::vector<std::vector<Link*>> outputs_;                // by port
  std::optional<tbb::flow::function_node<Message>> node_;  // a source has none
  Mailbox<Message> mailbox_;                               // for a serial stage
  // The kind of the last packet. Written only on change, so that threads do not contend for it.
  std::atomic<bool> slow_samples_{true}, slow_packets_{true};
  std::atomic<std::uint64_t> sampled_ticks_{0}, sampled_nanoseconds_{0};
};

}  // namespace millrace::flow
