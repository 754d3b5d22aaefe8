// One stage instance as a oneTBB node, and the edges between them.
//
// A packet travels as a Message, which is trivially copyable: oneTBB copies messages into tasks and queues, and copying a Packet
// would touch the payload's reference count each time. A Message owns the references it was made with; exactly one body takes
// them over.
//
// The last packet that a stage sends from inside process() need not go through oneTBB: when process() has returned, the same
// thread runs the next stage. That is what oneTBB itself does with a node's result (it "bypasses" the scheduler), at a lower
// price, and the samples stay in this core's cache. All other packets are put at once.
#pragma once

#include <oneapi/tbb/flow_graph.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/core.h"
#include "graph/mailbox.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"

namespace millrace::flow {

class Node;

// An edge of the plan: from an output port to an input port of one stage, all its instances.
struct Link {
  enum class Carries { chunk, batch, other };

  std::string from, to;        // the stages' names
  std::vector<Node*> targets;  // one, or one for each replica
  int port = 0;                // the targets' input port
  std::size_t number = 0;      // among the graph's links
  Carries carries = Carries::other;
  bool carries_encoded = false;        // a chunk whose samples are not decoded yet
  std::function<void(Packet)> divert;  // where packets go instead: the gate, or back to the source
  Counters counters;                   // packets: sent; samples: received; waited: between the two
  Node* bypass = nullptr;              // the target, when packets need not go through oneTBB

  // To all targets, or to the one that the packet names. Thread-safe.
  void send(Packet&& packet, const Node* sender);
  // What the gate lets through: already stamped and counted.
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
    int replica = -1;  // of several instances; -1: there is only one
    int instances = 1;
    Position at = {};         // of its table
    bool is_of_step = false;  // its packets go before those of samples: devices wait for it
  };

  Node(Core& core, std::shared_ptr<Stage> stage, Kind kind, Place place, std::size_t output_ports);

  void connect(int port, Link& link) { outputs_[static_cast<std::size_t>(port)].push_back(&link); }

  void emit(int port, Packet packet) override;
  void begin_hold() override { core_.graph.reserve_wait(); }
  void end_hold() override { core_.graph.release_wait(); }
  void fail(Error error) override;  // adds the stage's name

  void put(const Message& message);
  static const Place* running() noexcept;  // of the node whose stage runs on this thread; null: none. Async-signal-safe
  Stage& stage() const { return *stage_; }
  const Place& place() const { return place_; }
  Kind kind() const { return kind_; }
  // One packet was worked on, by this thread. `nanoseconds`: thread_nanoseconds() that it took; 0: not looked at.
  void count(int line, std::uint64_t ticks, std::uint64_t samples, std::uint64_t bytes, std::uint64_t nanoseconds);
  bool is_looked_at() const;       // whether to ask for this thread's processor time, which costs more than counting
  double computing_share() const;  // of the time in process(), that threads computed and did not wait; by packets looked at
  Counters counters;
  ServiceTimes service;

 private:
  void run(Message message) noexcept;
  bool claim(const Message& message) { return kind_ != Kind::serial || mailbox_.claim(message); }
  void done();  // with a message: on to the next one
  void spawn(const Message& message);
  std::uint64_t process(const Link& link, Packet&& packet, std::uint64_t begin, int line) noexcept;
  [[gnu::cold, gnu::noinline]] std::uint64_t process_traced(const Link& link, Packet&& packet, std::uint64_t begin,
                                                            int line) noexcept;
  std::uint64_t samples_of(const Link& link, const Packet& packet) const;
  static std::uint64_t bytes_of(const Link& link, const Packet& packet);  // of samples
  bool is_whole(const Packet& packet);  // otherwise the graph fails: the stage wrote outside its slots

  Core& core_;
  std::shared_ptr<Stage> stage_;
  Kind kind_;
  Place place_;
  std::vector<std::vector<Link*>> outputs_;                // by port
  std::optional<tbb::flow::function_node<Message>> node_;  // a source has none
  Mailbox<Message> mailbox_;                               // of a serial stage
  // How the last packet went. Written when it changes, so that threads do not take it from each other.
  std::atomic<bool> slow_samples_{true}, slow_packets_{true};
  std::atomic<std::uint64_t> looked_ticks_{0}, looked_nanoseconds_{0};
};

}  // namespace millrace::flow
