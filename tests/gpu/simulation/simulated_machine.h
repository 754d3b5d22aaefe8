// A GPU simulated on the host, for tests: results come from the elements and from plain loops, and the order of execution is as
// loose as the marks allow.
//
// Every queue is a thread with random delays. Every piece of work names the memory that it reads and writes, so that accesses not
// ordered by a mark are reported however this run went, and every use of an arena is checked against the lifetimes of the plan.
//
//   auto simulation = std::make_shared<Simulation>(SimulationOptions{.seed = 7});
//   auto machine = std::make_shared<SimulatedMachine>(simulation, 0);
//   ... a replica on the machine, steps ...
//   for (const testkit::Violation& violation : simulation->violations()) ADD_FAILURE() << describe(violation);
//
// Machines of one simulation share memory and marks, like the devices of one process. Kinds of violation:
//   "missing wait"              two pieces of work touch the same bytes, one writes, and no mark, queue or host orders them
//   "buffer reused in flight"   the host touches pinned memory that a queue may still use, or its bytes changed under a copy_in
//   "released in flight"        the same for released memory
//   "wrong lifetime"            work in an arena outside a tensor alive at its time, or tensors that collide
//   "read before written"       work reads a tensor that was not written in its current life
//   "illegal address"           memory that is not the device's, was released, or is too short; the work fails
//   "written out of bounds"     the bytes around an allocation have changed (seen by finish() and release)
//   "inside a recording"        calls that a recording cannot contain: a wait for outside, a plain mark, memory that is not pinned,
//                               and device calls that the recording thread may not make meanwhile
//   "two threads in a queue"    two threads submit to a queue at the same time
// Violation::operation.step is the running number of the piece of work within the simulation.
//
// The order established by Mark::then counts only for the callback's own calls of host_access(): whom a callback notifies is
// unknown. A callback that returns a buffer must take it over first, by host_access(..., true).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/machine.h"
#include "runtime/plan_record.h"
#include "simulation/simulation.h"

namespace millrace::cuda {

class SimulatedMachine : public Machine {
 public:
  SimulatedMachine(std::shared_ptr<Simulation> simulation, int index);
  explicit SimulatedMachine(const SimulationOptions& options = {}) : SimulatedMachine(std::make_shared<Simulation>(options), 0) {}
  ~SimulatedMachine() override;

  Simulation& simulation() { return *simulation_; }
  std::vector<std::string> warnings() const;  // about choosing plans
  std::vector<testkit::Violation> violations() const { return simulation_->violations(); }

  const DeviceInfo& info() const override { return info_; }
  std::byte* allocate(std::size_t bytes, const std::string& what) override;
  void release(std::byte* memory) noexcept override;
  std::byte* allocate_host(std::size_t bytes) override;
  void release_host(std::byte* memory) noexcept override;
  std::size_t free_memory() override;
  bool reaches(const void* memory) override;

  std::unique_ptr<Queue> make_queue(const std::string& name) override;
  // The choice is only a name: SimulationOptions::engine, unless one was saved.
  std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape& shape, const PlanChoice& how) override;
  std::shared_ptr<const LibraryPlan> plan(const LinearShape& shape, const PlanChoice& how) override;
  std::string plans(const PlanChoice& how) override;
  EngineChoices& choices() override { return simulation_->choices(info_.index); }
  double seconds_between(const Event& first, const Event& second) override;
  void finish() override;

  bool checks() const override { return true; }
  void host_access(const void* host, std::size_t bytes, bool write) override;
  void declare_arena(const std::byte* arena, std::vector<ArenaTensor> tensors) override;
  void set_time(Queue& queue, const std::byte* arena, int time) override;

 private:
  [[noreturn]] void out_of_memory(std::size_t bytes, const std::string& what) const;
  std::size_t used(bool on_host = false) const;
  void release(std::byte* memory, const char* call) noexcept;

  void choose(const std::string& shape, const PlanChoice& how);
  PlanRecord& record_of(const PlanChoice& how);

  const std::shared_ptr<Simulation> simulation_;
  DeviceInfo info_;
  mutable std::mutex mutex_;
  std::vector<std::pair<ConvolutionShape, std::shared_ptr<const LibraryPlan>>> convolutions_;
  std::vector<std::pair<PlanChoice, std::unique_ptr<PlanRecord>>> records_;
  std::vector<std::string> warnings_;
  std::vector<std::pair<LinearShape, std::shared_ptr<const LibraryPlan>>> products_;
};

}  // namespace millrace::cuda
