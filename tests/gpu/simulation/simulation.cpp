#include "simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "simulation/simulated_queue.h"

namespace millrace::cuda {

using testkit::Clock;
using testkit::Violation;

namespace {

constexpr const char* kHostAccess = "host access";
constexpr const char* kRelease = "release";

// The checker uses one kind for everything out of order.
std::string kind_of(const Violation& violation) {
  if (violation.kind != "missing wait") return violation.kind;
  if (violation.operation.name == kHostAccess) return "buffer reused in flight";
  if (violation.operation.name == kRelease) return "released in flight";
  return violation.kind;
}

bool same_tensor(const Touch& a, const Touch& b) { return a.arena == b.arena && a.tensor == b.tensor; }

Touch whole_tensor(const Touch& touch) {
  const ArenaTensor& tensor = touch.arena->tensors[static_cast<std::size_t>(touch.tensor)];
  Touch whole = touch;
  whole.begin = touch.arena->begin + tensor.offset;
  whole.end = whole.begin + tensor.bytes;
  return whole;
}

}  // namespace

std::string describe(const Violation& violation) {
  const testkit::Operation& work = violation.operation;
  const std::string subject = fmt::format("{}: {} (work {})", violation.kind, work.name, work.step);
  if (violation.before.name.empty()) return fmt::format("{}: {}", subject, violation.region);
  return fmt::format("{} uses '{}' without waiting for {} (work {})", subject, violation.region, violation.before.name,
                     violation.before.step);
}

thread_local const CallbackScope* CallbackScope::current_ = nullptr;

CallbackScope::CallbackScope(testkit::OrderChecker& checker, int stream, const Clock& clock)
    : checker_(&checker), stream_(stream), outer_(current_) {
  checker.wait(stream, clock);
  current_ = this;
}

EngineChoices& Simulation::choices(int machine) {
  const std::scoped_lock lock(choices_mutex_);
  return choices_[machine];
}

std::vector<Violation> Simulation::violations() const {
  std::vector<Violation> result = checker_.violations();
  for (Violation& violation : result) violation.kind = kind_of(violation);
  return result;
}

void Simulation::report(const std::string& kind, const std::string& operation, const std::string& region, std::uint64_t work) {
  checker_.report({kind, {operation, work == 0 ? count(Count::operations) : work, -1, -1}, {}, region});
}

void Simulation::note_traffic(const std::string& work, const std::vector<Touch>& touches) {
  const std::scoped_lock lock(traffic_mutex_);
  Traffic& traffic = traffic_[work];
  ++traffic.launches;
  for (const Touch& touch : touches) traffic.bytes += touch.end - touch.begin;
}

std::map<std::string, Traffic> Simulation::traffic() const {
  const std::scoped_lock lock(traffic_mutex_);
  return traffic_;
}

void Simulation::forget_traffic() {
  const std::scoped_lock lock(traffic_mutex_);
  traffic_.clear();
}

void Simulation::refuse_in_recording(const char* call) {
  if (recordings_of_this_thread > 0) report("inside a recording", call, "this thread is recording a queue");
}

// ---- Arenas ----

void Simulation::plant(std::vector<ArenaTensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t number = next(Count::tensors);
    if (number == options_.end_lifetime_early) --tensors[i].last;
    if (number == options_.begin_lifetime_late) ++tensors[i].first;
    if (number == options_.share_place && i > 0) tensors[i].offset = tensors[i - 1].offset;
  }
}

void Simulation::declare_arena(const std::byte* arena, std::vector<ArenaTensor> tensors) {
  const std::shared_ptr<Allocation> memory = allocations_.find(arena);
  if (!memory) fail(ErrorKind::usage, "the arena at {} is not in memory of the device", static_cast<const void*>(arena));
  plant(tensors);
  const auto begin = static_cast<std::size_t>(arena - memory->data());
  auto declared = std::make_shared<ArenaDeclaration>(ArenaDeclaration{memory.get(), memory->name(), begin, std::move(tensors)});
  const auto tensor = [&declared](int i) { return cuda::describe(declared->tensors[static_cast<std::size_t>(i)]); };
  for (const auto& [a, b] : collisions(*declared)) {
    const std::string both =
        fmt::format("{} and {} of '{}' share bytes while both are alive", tensor(a), tensor(b), memory->name());
    report("wrong lifetime", "declare_arena", both);
  }
  for (const ArenaTensor& each : declared->tensors) {
    if (begin + each.offset + each.bytes <= memory->bytes()) continue;
    report("illegal address", "declare_arena", fmt::format("{} ends after '{}'", cuda::describe(each), memory->name()));
  }
  const std::scoped_lock lock(arenas_mutex_);
  arenas_.declare(known_declaration(declared));
}

// A recording refers to the declaration in force at its creation: equal ones are identical.
Declaration Simulation::known_declaration(const Declaration& declared) {
  for (const Declaration& known : declarations_) {
    if (known->memory == declared->memory && known->begin == declared->begin && known->tensors == declared->tensors) return known;
  }
  return declarations_.emplace_back(declared);
}

Declaration Simulation::arena_at(const std::byte* arena) const {
  const std::shared_ptr<Allocation> memory = allocations_.find(arena);
  const Declaration declared = memory ? arena_of(*memory, static_cast<std::size_t>(arena - memory->data())) : nullptr;
  if (!declared) fail(ErrorKind::usage, "no arena was declared at {}", static_cast<const void*>(arena));
  return declared;
}

Declaration Simulation::arena_of(const Allocation& memory, std::size_t offset) const {
  const std::scoped_lock lock(arenas_mutex_);
  return arenas_.find(memory, offset);
}

void Simulation::restore(const Declaration& arena) {
  const std::scoped_lock lock(arenas_mutex_);
  arenas_.restore(arena);
}

void Simulation::set_time(const Declaration& arena, int queue, int time) {
  const std::scoped_lock lock(arenas_mutex_);
  arenas_.set_time(arena, queue, time);
}

std::optional<int> Simulation::time(const Declaration& arena, int queue) const {
  const std::scoped_lock lock(arenas_mutex_);
  return arenas_.time(arena, queue);
}

std::vector<Touch> Simulation::note_contents(std::vector<Touch>& touches, const std::string& operation, std::uint64_t work) {
  std::vector<Touch> to_poison;
  const std::scoped_lock lock(arenas_mutex_);
  const auto fresh = [this](const Touch& touch) {
    return touch.tensor != kNoTensor && !arenas_.written(touch.arena, touch.tensor);
  };
  std::vector<Touch> read_too_early;
  for (const Touch& touch : touches) {
    if (touch.write || !fresh(touch)) continue;
    read_too_early.push_back(touch);
    report("read before written", operation,
           fmt::format("{} of '{}'", cuda::describe(touch.arena->tensors[static_cast<std::size_t>(touch.tensor)]),
                       touch.memory->name()),
           work);
  }
  for (Touch& touch : touches) {
    if (!touch.write || !fresh(touch)) continue;
    arenas_.set_written(touch.arena, touch.tensor);
    const auto is_this = [&touch](const Touch& other) { return same_tensor(touch, other); };
    if (!options_.poison || !options_.computes || std::any_of(read_too_early.begin(), read_too_early.end(), is_this)) continue;
    touch = whole_tensor(touch);
    to_poison.push_back(touch);
  }
  return to_poison;
}

// ---- The host ----

void Simulation::touch_as_host(HostUse use, const Touch& touch) {
  const int stream = CallbackScope::stream_or(checker_, host_stream_);
  const char* operation = use == HostUse::access ? kHostAccess : kRelease;
  const Clock clock = checker_.submit(stream, {operation, count(Count::operations), -1, -1},
                                      {{touch.memory->name(), touch.begin, touch.end, touch.write}});
  // The host has done this before it continues, but other threads are not ordered after a callback's earlier knowledge.
  Clock own(static_cast<std::size_t>(stream) + 1, 0);
  own.back() = clock[static_cast<std::size_t>(stream)];
  checker_.seen_by_host(own);
}

void Simulation::forget(const Allocation& memory) {
  const std::scoped_lock lock(arenas_mutex_);
  arenas_.forget(memory);
}

void Simulation::check_guards(const Allocation& memory) {
  if (!memory.intact()) report("written out of bounds", "unknown", fmt::format("the bytes around '{}'", memory.name()));
}

// ---- Failure ----

void Simulation::fail_work(const Error& error) {
  const std::scoped_lock lock(failure_mutex_);
  if (!failure_) failure_ = error;
  failed_ = true;
}

std::optional<Error> Simulation::failure() const {
  const std::scoped_lock lock(failure_mutex_);
  return failure_;
}

void Simulation::throw_failure() const {
  if (const std::optional<Error> error = failure()) throw Error(*error);
}

void Simulation::begin_call(int machine, const std::string& call) {
  const std::uint64_t number = next(Count::calls);
  if (options_.fail_call == 0) return;
  if (number == options_.fail_call)
    fail_work(Error(ErrorKind::device, fmt::format("cuda:{}: {} (call {}) failed", machine, call, number)));
  throw_failure();
}

// ---- Queues ----

void Simulation::add_queue(SimulatedQueue& queue) {
  const std::scoped_lock lock(queues_mutex_);
  queues_.push_back(&queue);
}

void Simulation::remove_queue(SimulatedQueue& queue) {
  const std::scoped_lock lock(queues_mutex_);
  std::erase(queues_, &queue);
}

void Simulation::drain(int machine) {
  const std::scoped_lock lock(queues_mutex_);
  for (SimulatedQueue* queue : queues_)
    if (queue->machine() == machine) queue->drain();
}

}  // namespace millrace::cuda
