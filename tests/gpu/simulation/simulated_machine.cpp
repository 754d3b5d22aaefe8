#include "simulation/simulated_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "simulation/library_loops.h"
#include "simulation/simulated_queue.h"

namespace millrace::cuda {
namespace {

constexpr const char* kLibrary = "loops";

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Plans of equal shapes are made once.
template <class Shape>
std::shared_ptr<const LibraryPlan> find_or_make(std::vector<std::pair<Shape, std::shared_ptr<const LibraryPlan>>>& plans,
                                                const Shape& shape) {
  for (const auto& [known, plan] : plans)
    if (known == shape) return plan;
  return plans.emplace_back(shape, plan_in_loops(shape)).second;
}

}  // namespace

SimulatedMachine::SimulatedMachine(std::shared_ptr<Simulation> simulation, int index) : simulation_(std::move(simulation)) {
  info_.backend = "cuda";
  info_.index = index;
  info_.name = simulation_->options().name;
  info_.memory = simulation_->options().memory;
  info_.native_bf16 = true;
}

SimulatedMachine::~SimulatedMachine() = default;

// ---- Memory ----

std::size_t SimulatedMachine::used(bool on_host) const {
  std::size_t bytes = 0;
  for (const std::shared_ptr<Allocation>& each : simulation_->allocations().all())
    if (each->machine() == info_.index && each->on_host() == on_host) bytes += each->bytes();
  return bytes;
}

std::size_t SimulatedMachine::free_memory() { return info_.memory - used(); }

bool SimulatedMachine::reaches(const void* memory) {
  const std::shared_ptr<Allocation> known = simulation_->allocations().find(memory);
  return simulation_->options().peer_access || !known || known->machine() == info_.index;
}

void SimulatedMachine::out_of_memory(std::size_t bytes, const std::string& what) const {
  std::vector<std::string> held;
  for (const std::shared_ptr<Allocation>& each : simulation_->allocations().all())
    if (each->machine() == info_.index && !each->on_host())
      held.push_back(fmt::format("{} {:.1f} MiB", each->name(), mebibytes(each->bytes())));
  const std::size_t free = info_.memory - used();
  fail(ErrorKind::device,
       "out of memory on cuda:{} ({}): {} needs {:.1f} MiB, {:.1f} of {:.1f} MiB are free; held: {}; use a smaller batch",
       info_.index, info_.name, what, mebibytes(bytes), mebibytes(free), mebibytes(info_.memory),
       held.empty() ? "nothing" : fmt::format("{}", fmt::join(held, ", ")));
}

std::byte* SimulatedMachine::allocate(std::size_t bytes, const std::string& what) {
  simulation_->refuse_in_recording("Machine::allocate");
  simulation_->begin_call(info_.index, "allocate");
  const std::scoped_lock lock(mutex_);
  if (bytes > info_.memory - used()) out_of_memory(bytes, what);
  return simulation_->allocations().add(what, bytes, info_.index, false)->data();
}

std::byte* SimulatedMachine::allocate_host(std::size_t bytes) {
  simulation_->refuse_in_recording("Machine::allocate_host");
  simulation_->begin_call(info_.index, "allocate_host");
  if (bytes > simulation_->options().pinned - used(true))
    fail(ErrorKind::device, "cuda:{}: {} bytes cannot be pinned", info_.index, bytes);
  return simulation_->allocations().add("pinned memory", bytes, info_.index, true)->data();
}

void SimulatedMachine::release(std::byte* memory) noexcept { release(memory, "Machine::release"); }
void SimulatedMachine::release_host(std::byte* memory) noexcept { release(memory, "Machine::release_host"); }

void SimulatedMachine::release(std::byte* memory, const char* call) noexcept {
  simulation_->refuse_in_recording(call);
  if (memory == nullptr) return;
  const std::shared_ptr<Allocation> released = simulation_->allocations().remove(memory);
  if (!released) {
    simulation_->report("illegal address", call, fmt::format("{} was not allocated", static_cast<const void*>(memory)));
    return;
  }
  simulation_->touch_as_host(HostUse::release, {released, 0, released->bytes(), true, nullptr, kNoTensor});
  simulation_->check_guards(*released);
  simulation_->forget(*released);
}

// ---- Work ----

std::unique_ptr<Queue> SimulatedMachine::make_queue(const std::string& name) {
  return std::make_unique<SimulatedQueue>(simulation_, info_.index, name);
}

PlanRecord& SimulatedMachine::record_of(const PlanChoice& how) {
  for (const auto& [known, record] : records_) {
    if (known == how) return *record;
  }
  const auto warn = [this](std::string_view message) {
    this->warn(message);
    warnings_.emplace_back(message);
  };
  PlanRecord& made = *records_.emplace_back(how, std::make_unique<PlanRecord>(how.saved, warn)).second;
  made.here("device", info_.name);
  made.library(kLibrary, "1");
  return made;
}

std::string SimulatedMachine::plans(const PlanChoice& how) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [known, record] : records_) {
    if (known == how) return record->text();
  }
  return {};
}

std::vector<std::string> SimulatedMachine::warnings() const {
  const std::scoped_lock lock(mutex_);
  return warnings_;
}

void SimulatedMachine::choose(const std::string& shape, const PlanChoice& how) {
  PlanRecord& record = record_of(how);
  record.put(kLibrary, shape, record.find(kLibrary, shape).value_or(simulation_->options().engine));
}

std::shared_ptr<const LibraryPlan> SimulatedMachine::plan(const ConvolutionShape& shape, const PlanChoice& how) {
  const std::scoped_lock lock(mutex_);
  if (shape.accumulate && !simulation_->options().accumulates) fail(ErrorKind::usage, "no engine adds to a gradient");
  choose(fmt::format("convolution {} of ({} {} {} {}), {} x {} to {}{}", static_cast<int>(shape.kind), shape.n, shape.c, shape.h,
                     shape.w, shape.kernel_h, shape.kernel_w, shape.k, shape.accumulate ? ", added" : ""),
         how);
  return find_or_make(convolutions_, shape);
}

std::shared_ptr<const LibraryPlan> SimulatedMachine::plan(const LinearShape& shape, const PlanChoice& how) {
  const std::scoped_lock lock(mutex_);
  choose(fmt::format("product {} of {} x {} to {}", static_cast<int>(shape.kind), shape.rows, shape.in, shape.out), how);
  return find_or_make(products_, shape);
}

double SimulatedMachine::seconds_between(const Event& first, const Event& second) {
  return static_cast<const SimulatedMark&>(second).seconds() - static_cast<const SimulatedMark&>(first).seconds();
}

void SimulatedMachine::finish() {
  simulation_->refuse_in_recording("Machine::finish");
  simulation_->drain(info_.index);
  for (const std::shared_ptr<Allocation>& each : simulation_->allocations().all())
    if (each->machine() == info_.index) simulation_->check_guards(*each);
  simulation_->throw_failure();
}

// ---- Only for a checking machine ----

void SimulatedMachine::host_access(const void* host, std::size_t bytes, bool write) {
  const std::shared_ptr<Allocation> memory = simulation_->allocations().find(host);
  if (!memory || bytes == 0) return;
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(host) - memory->data());
  if (!memory->on_host() || begin + bytes > memory->bytes()) {
    simulation_->report("illegal address", "host access",
                        fmt::format("bytes {}..{} of '{}'", begin, begin + bytes, memory->name()));
    return;
  }
  simulation_->touch_as_host(HostUse::access, {memory, begin, begin + bytes, write, nullptr, kNoTensor});
}

void SimulatedMachine::declare_arena(const std::byte* arena, std::vector<ArenaTensor> tensors) {
  simulation_->declare_arena(arena, std::move(tensors));
}

void SimulatedMachine::set_time(Queue& queue, const std::byte* arena, int time) {
  auto* ours = dynamic_cast<SimulatedQueue*>(&queue);
  if (ours == nullptr) fail(ErrorKind::usage, "the queue is not of this machine");
  ours->set_time(simulation_->arena_at(arena), time);
}

}  // namespace millrace::cuda
