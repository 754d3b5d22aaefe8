// The devices of a run, and the network compiled for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/backend/backend.h"
#include "millrace/util/group.h"
#include "prepare/devices.h"
#include "prepare/graph_build.h"
#include "ranks/group_all_gather.h"

namespace millrace {

// Replicas are numbered over all processes of a run; this process has those of its devices. Empty for a pipeline without a
// network. Owns devices, replicas, and their exchange in the middle of a pass.
class ReplicaSet {
 public:
  ReplicaSet() = default;
  // `group`: the processes of the run; null: there is one. It outlives this. `load`: shares of all replicas; empty: equal.
  ReplicaSet(OpenDevices devices, Precision precision, std::vector<double> load, Group* group);

  // Sets the request common to all replicas: the settings of [run] and the requests of the graphs' stages.
  void ask(const RunParams& run, const Builds& builds, bool time_layers);
  // The network for the graphs' current batches; not kept. `metadata`: of the weights, with engine plans. REQUIRES: ask().
  struct Compiling {
    const Pipeline& pipeline;
    const Builds& builds;
    const std::map<std::string, std::string>& metadata;
    std::function<void(std::string what)> doing;
    bool is_trial = false;  // the replicas neither communicate nor keep images
  };
  Replicas compiled(const Compiling& what) const;
  void keep(Replicas replicas) { replicas_ = std::move(replicas); }

  const OpenDevices& devices() const { return devices_; }
  const Replicas& here() const { return replicas_; }
  std::size_t all() const { return devices_.all_replicas; }
  Precision precision() const { return precision_; }
  const CompileRequest& request() const { return shared_.request; }
  std::int32_t resident_set(std::size_t graph) const { return resident_sets_.empty() ? -1 : resident_sets_[graph]; }
  // The slots of a batch that this process reads.
  std::uint32_t slots_here(std::uint32_t batch_size) const;

  // Shares of all replicas; empty: equal. Later compilations use these.
  const std::vector<double>& load() const { return load_; }
  void set_load(std::vector<double> load) { load_ = std::move(load); }

  void finish() const;   // waits for all submitted work
  void give_up() const;  // makes waits for other processes fail

 private:
  CompileOptions options_for(std::size_t replica, const Compiling& what) const;

  OpenDevices devices_;                         // destroyed after the replicas
  std::unique_ptr<GroupAllGather> all_gather_;  // between the replicas
  Group* group_ = nullptr;
  Precision precision_ = Precision::fp32;
  std::vector<double> load_;
  CompileOptions shared_;
  std::vector<std::int32_t> resident_sets_;  // by graph: the set that devices keep, or -1
  Replicas replicas_;
};

// `devices`: replaces run.devices unless "". Errors have the position of the request.
struct RequestedDevices {
  std::string devices;
  Group* group = nullptr;
};
ReplicaSet open_replicas(const Pipeline& pipeline, const Registry& registry, const RequestedDevices& asked,
                         const std::function<void(std::string_view message)>& warn);

}  // namespace millrace
