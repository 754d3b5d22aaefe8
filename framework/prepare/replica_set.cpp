#include "prepare/replica_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/detail/split.h"
#include "millrace/error.h"
#include "weight_files/weights.h"

namespace millrace {

ReplicaSet::ReplicaSet(OpenDevices devices, Precision precision, std::vector<double> load, Group* group)
    : devices_(std::move(devices)),
      all_gather_(
          std::make_unique<GroupAllGather>(devices_.first_replica, devices_.devices.size(), devices_.all_replicas, group)),
      group_(group),
      precision_(precision),
      load_(std::move(load)) {}

void ReplicaSet::ask(const RunParams& run, const Builds& builds, bool time_layers) {
  shared_.precision = precision_;
  shared_.seed = static_cast<std::uint64_t>(run.seed);
  shared_.tune = run.tune == "measure" ? Tune::measure : Tune::heuristic;
  shared_.deterministic = run.deterministic;
  shared_.graphs = run.graphs;
  shared_.recompute = run.recompute;
  shared_.time_layers = time_layers;
  shared_.all_gather = all_gather_.get();
  for (const auto& build : builds) {
    const std::optional<ResidentSet> set = build->resident_set();
    resident_sets_.push_back(set ? static_cast<std::int32_t>(shared_.resident_sets.size()) : -1);
    if (set) shared_.resident_sets.push_back(*set);
    build->add_requests(shared_.request);
  }
}

CompileOptions ReplicaSet::options_for(std::size_t replica, const Compiling& what) const {
  CompileOptions options = shared_;
  options.replica = devices_.first_replica + replica;
  options.plans = plans_for(devices_.devices[replica]->info(), options.replica, what.metadata);
  if (what.is_trial) {
    options.all_gather = nullptr;
    options.request.sync_batch_norm = false;
    options.resident_sets.clear();
  }
  for (const auto& build : what.builds) {
    if (build->data().batch.size == 0) continue;
    // A replica without a share still has gradients, laid out like the others': zeros that are summed.
    const auto shares = split(build->data().batch.size, all(), load_);
    const std::uint32_t share = std::max(shares[options.replica].count, 1U);
    const std::uint32_t pieces = build->trains() ? options.request.micro_batches : 1;
    std::uint32_t& largest = build->trains() ? options.train_batch : options.infer_batch;
    largest = std::max(largest, (share + pieces - 1) / pieces);
    if (!build->trains()) continue;
    for (const Share& each : shares)
      options.largest_train_batch = std::max(options.largest_train_batch, (each.count + pieces - 1) / pieces);
  }
  return options;
}

Replicas ReplicaSet::compiled(const Compiling& what) const {
  Replicas replicas;
  for (std::size_t r = 0; r < devices_.devices.size(); ++r) {
    const CompileOptions options = options_for(r, what);
    const DeviceInfo& device = devices_.devices[r]->info();
    what.doing(fmt::format("compiling the network for {}:{}", device.backend, device.index));
    replicas.push_back(devices_.devices[r]->compile(*what.pipeline.network, options));
  }
  return replicas;
}

std::uint32_t ReplicaSet::slots_here(std::uint32_t batch_size) const {
  if (group_ == nullptr || all() == 0) return batch_size;
  const auto shares = split(batch_size, all(), load_);
  std::uint32_t slots = 0;
  for (std::size_t r = 0; r < devices_.devices.size(); ++r) slots += shares[devices_.first_replica + r].count;
  return slots;
}

void ReplicaSet::finish() const {
  for (const auto& replica : replicas_) replica->finish();
}

void ReplicaSet::give_up() const {
  if (all_gather_) all_gather_->give_up();
}

namespace {

// "auto" may choose bf16 on one machine and float32 on another: then all use float32.
Precision common_precision(Precision mine, Group* group) {
  if (group == nullptr) return mine;
  const auto here = static_cast<std::byte>(mine);
  const auto all = group->all_gather(Group::kRun, std::span(&here, 1));
  const bool agree = std::ranges::all_of(all, [&](const auto& each) { return each.size() == 1 && each[0] == here; });
  return agree ? mine : Precision::fp32;
}

}  // namespace

ReplicaSet open_replicas(const Pipeline& pipeline, const Registry& registry, const RequestedDevices& asked,
                         const std::function<void(std::string_view message)>& warn) {
  const bool by_option = !asked.devices.empty();
  const std::string& text = by_option ? asked.devices : pipeline.run.devices;
  OpenDevices devices;
  try {
    devices = open_devices(text, pipeline.run.load, registry, warn, asked.group);
  } catch (Error& error) {
    if (by_option) throw error.in("--devices");
    const Value* run = pipeline.resolved.find("run");
    for (const char* key : {"devices", "load"}) {  // with automatic devices only the shares are in the file
      if (const Value* written = run ? run->find(key) : nullptr) throw error.in(to_string(written->at()));
    }
    throw;
  }
  const Precision precision = common_precision(choose_precision(pipeline.run.precision, devices), asked.group);
  return {std::move(devices), precision, pipeline.run.load, asked.group};
}

}  // namespace millrace
