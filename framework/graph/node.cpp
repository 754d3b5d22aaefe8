#include "graph/node.h"

#include <algorithm>
#include <cassert>
#include <type_traits>
#include <utility>

#include "base/crash_stack.h"
#include "graph/guard.h"
#include "graph/tsan.h"
#include "millrace/batch.h"
#include "millrace/util/trace.h"

namespace millrace::flow {
namespace {

static_assert(std::is_trivially_copyable_v<Message>);

// The next work of this thread, when its current stage has returned.
struct Turn {
  const Node* running = nullptr;  // the node that may leave its last packet here
  Node* node = nullptr;
  Link* link = nullptr;
  Packet packet;
};
// "initial-exec" needs one instruction to access. The library is not opened late, or fits into the space reserved for this.
__attribute__((tls_model("initial-exec"))) constinit thread_local Turn* this_turn = nullptr;

Message pack(Packet&& packet, Link& link) {
  return {packet.payload.detach(), packet.token.detach(), &link,        packet.sequence, packet.stamp,
          packet.weights,          packet.begin,          packet.count, packet.replica};
}

Packet unpack(const Message& message) {
  return {Ref<Payload>::adopt(message.payload),
          message.sequence,
          message.stamp,
          message.begin,
          message.count,
          message.weights,
          message.replica,
          Ref<Payload>::adopt(message.token)};
}

}  // namespace

const Node::Place* Node::running() noexcept { return this_turn && this_turn->running ? &this_turn->running->place() : nullptr; }

std::int64_t Link::level() const {
  const Counters::Totals totals = counters.totals();
  return static_cast<std::int64_t>(totals.packets - totals.samples);
}

void Link::send(Packet&& packet, const Node* sender) {
  if (Turn* turn = this_turn; bypass && turn && turn->running == sender) {
    if (turn->node) {  // the previous one goes where another thread can take it
      turn->packet.stamp = now_ticks();
      turn->link->counters.add(0, 1, 0, 0);
      turn->node->put(pack(std::move(turn->packet), *turn->link));
    }
    turn->packet = std::move(packet);
    turn->node = bypass;
    turn->link = this;
    return;
  }
  packet.stamp = now_ticks();
  counters.add(0, receivers(packet), 0, 0);
  if (divert) {
    divert(std::move(packet));
  } else {
    pass(std::move(packet));
  }
}

void Link::pass(Packet packet) {
  if (targets.size() == 1) return targets[0]->put(pack(std::move(packet), *this));
  if (packet.replica >= 0) {
    assert(static_cast<std::size_t>(packet.replica) < targets.size());
    return targets[static_cast<std::size_t>(packet.replica)]->put(pack(std::move(packet), *this));
  }
  for (std::size_t i = 0; i + 1 < targets.size(); ++i) targets[i]->put(pack(Packet(packet), *this));
  targets.back()->put(pack(std::move(packet), *this));
}

void Link::drop(const Packet& packet) { counters.add(0, 0, receivers(packet), 0); }

Node::Node(Core& core, std::shared_ptr<Stage> stage, Kind kind, Place place, std::size_t output_ports)
    : core_(core), stage_(std::move(stage)), kind_(kind), place_(std::move(place)), outputs_(output_ports) {
  if (kind == Kind::source) return;
  node_.emplace(
      core.graph, tbb::flow::unlimited, [this](const Message& message) MILLRACE_UNSEEN_BY_TSAN { run(Message(message)); },
      place_.is_of_step ? tbb::flow::node_priority_t{1} : tbb::flow::no_priority);
}

void Node::emit(int port, Packet packet) {
  const std::vector<Link*>& links = outputs_[static_cast<std::size_t>(port)];
  if (core_.guarded && !is_whole(packet)) return;
  if (links.empty()) return;  // no stage takes it
  for (std::size_t i = 0; i + 1 < links.size(); ++i) links[i]->send(Packet(packet), this);
  links.back()->send(std::move(packet), this);
}

void Node::fail(Error error) {
  std::string frame = "stage '" + place_.graph + "." + place_.name + "'";
  if (place_.instances > 1) frame += " of replica " + std::to_string(place_.replica);
  if (is_in_file(place_.at)) frame += " (" + to_string(place_.at) + ")";
  core_.fail(error.in(std::move(frame)));
}

bool Node::is_whole(const Packet& packet) {
  const auto* guarded = dynamic_cast<const Guarded*>(packet.payload.get());
  const std::string damage = guarded ? guarded->damage(packet.begin, packet.count) : std::string();
  if (damage.empty()) return true;
  fail(Error(ErrorKind::run, damage + ". A stage may write only into what Sample::new_image(), change_pixels() and "
                                      "Batch::change_pixels() give it"));
  return false;
}

void Node::put(const Message& message) {
  if (claim(message)) spawn(message);
}

void Node::done() {
  Message next;
  if (kind_ == Kind::serial && mailbox_.next(next)) spawn(next);
}

void Node::spawn(const Message& message) {
  released(message.payload);
  node_->try_put(message);
}

void Node::run(const Message message) noexcept {
  acquired(message.payload);
  Turn turn;
  Turn* const outer = std::exchange(this_turn, &turn);  // a stage that waits in oneTBB may run another node's task here
  if (outer == nullptr) use_crash_stack();              // any thread of oneTBB may arrive
  const int line = Counters::this_line();
  std::uint64_t now = now_ticks();
  message.link->counters.add(line, 0, 0, 1, now > message.stamp ? now - message.stamp : 0);
  Node* node = this;
  const Link* link = message.link;
  Packet packet = unpack(message);
  while (node) {
    turn.running = node;
    now = is_traced() ? node->process_traced(*link, std::move(packet), now, line)
                      : node->process(*link, std::move(packet), now, line);
    Node* const next = std::exchange(turn.node, nullptr);
    bool claimed = false;
    if (next) {
      turn.packet.stamp = now;
      const Message following = pack(std::move(turn.packet), *turn.link);
      claimed = next->claim(following);  // before done(), so that packets keep their order from stage to stage
      turn.link->counters.add(line, 0, 1, claimed ? 1 : 0, 0);
      if (claimed) packet = unpack(following);
      link = following.link;
    }
    node->done();
    node = claimed ? next : nullptr;
  }
  this_turn = outer;
  released(&core_);
}

std::uint64_t Node::process_traced(const Link& link, Packet&& packet, std::uint64_t begin, int line) noexcept {
  TraceSlice slice{.graph = place_.graph,
                   .name = place_.name,
                   .from = link.from,
                   .sent = packet.stamp,
                   .begin = begin,
                   .step = packet.sequence,
                   .slot = packet.begin,
                   .slots = link.carries == Link::Carries::chunk ? packet.count : 0,
                   .replica = place_.replica};
  slice.end = process(link, std::move(packet), begin, line);
  trace(slice);
  return slice.end;
}

std::uint64_t Node::process(const Link& link, Packet&& packet, std::uint64_t begin, int line) noexcept {
  if (core_.failed()) {
    packet = {};
    return begin;
  }
  const std::uint64_t step = packet.sequence, samples = samples_of(link, packet), bytes = bytes_of(link, packet);
  const Packet kept = core_.guarded && outputs_.empty() ? packet : Packet();  // with outputs, send() checks
  const std::uint64_t computed = is_sampled() ? thread_nanoseconds() : 0;
  core_.work.begin(line, this, begin, step, packet.begin, packet.count);
  SampleWatch watch(slow_samples_.load(std::memory_order_relaxed) ? &service : nullptr, line, begin, core_.work.at(line).sample);
  SampleWatch* const outer = std::exchange(SampleWatch::current(), &watch);
  try {
    stage_->process(link.port, std::move(packet), *this);
    if (kept.payload) is_whole(kept);
  } catch (...) {
    Error error = current_error();
    if (link.carries != Link::Carries::chunk) error.in("step " + std::to_string(step));
    fail(std::move(error));
  }
  SampleWatch::current() = outer;
  core_.work.end(line);
  const std::uint64_t end = now_ticks();
  if (watch.counted() == 0 && samples > 0) service.add(line, (end - begin) / samples, samples);
  count(line, end - begin, samples, bytes, computed > 0 ? thread_nanoseconds() - computed : 0);
  return end;
}

// Timing a sample costs about 10 ns, reading the thread's processor time about 600.
void Node::count(int line, std::uint64_t ticks, std::uint64_t samples, std::uint64_t bytes, std::uint64_t nanoseconds) {
  struct Slow {
    std::uint64_t sample, packet;  // ticks
  };
  static const Slow slow{static_cast<std::uint64_t>(5e-6 / seconds_per_tick()),
                         static_cast<std::uint64_t>(1e-3 / seconds_per_tick())};
  const auto remember = [](std::atomic<bool>& flag, bool value) {
    if (flag.load(std::memory_order_relaxed) != value) flag.store(value, std::memory_order_relaxed);
  };
  if (samples > 0) remember(slow_samples_, ticks > slow.sample * samples);
  remember(slow_packets_, ticks > slow.packet);
  counters.add(line, ticks, 1, samples, 0, bytes);
  if (nanoseconds == 0) return;
  sampled_ticks_.fetch_add(ticks, std::memory_order_relaxed);
  sampled_nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

// All slow packets, and a few others. The interval is prime, so that a thread in a cycle of stages samples each.
bool Node::is_sampled() const {
  constexpr unsigned kEvery = 509;
  __attribute__((tls_model("initial-exec"))) thread_local constinit unsigned packets = 0;
  return slow_packets_.load(std::memory_order_relaxed) || ++packets % kEvery == 0;
}

double Node::computing_share() const {
  const double seconds = static_cast<double>(sampled_ticks_.load(std::memory_order_relaxed)) * seconds_per_tick();
  const double computed = 1e-9 * static_cast<double>(sampled_nanoseconds_.load(std::memory_order_relaxed));
  return seconds > 0 ? std::min(computed / seconds, 1.0) : 1;
}

std::uint64_t Node::bytes_of(const Link& link, const Packet& packet) {
  if (link.carries == Link::Carries::other) return 0;
  const auto& batch = static_cast<const Batch&>(*packet.payload);
  if (link.carries == Link::Carries::batch) return batch.count * batch.image.bytes();
  std::uint64_t bytes = 0;
  for (const Sample& sample : batch.chunk(packet))
    bytes += link.carries_encoded ? sample.encoded.size() : sample.image().shape.bytes();
  return bytes;
}

std::uint64_t Node::samples_of(const Link& link, const Packet& packet) const {
  switch (link.carries) {
    case Link::Carries::chunk: return packet.count;
    case Link::Carries::batch:
      return static_cast<const Batch&>(*packet.payload).count / static_cast<std::uint64_t>(place_.instances);
    case Link::Carries::other: break;
  }
  return 0;
}

}  // namespace millrace::flow
