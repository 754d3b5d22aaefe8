// The network compiled for the devices of a session, and the size of its batches where the file leaves it open.
#include <fmt/format.h>

#include <algorithm>

#include "config/document.h"
#include "millrace/detail/split.h"
#include "run/batch_size.h"
#include "run/batch_statistics.h"
#include "run/label_values.h"
#include "run/median_weights.h"
#include "run/session.h"
#include "run/wire.h"

namespace millrace {

// What is the same for all replicas.
CompileOptions Session::compile_options() {
  CompileOptions compile;
  compile.precision = precision_;
  compile.seed = static_cast<std::uint64_t>(pipeline_.run.seed);
  compile.tune = pipeline_.run.tune == "measure" ? Tune::measure : Tune::heuristic;
  compile.deterministic = pipeline_.run.deterministic;
  compile.graphs = pipeline_.run.graphs;
  compile.recompute = pipeline_.run.recompute;
  compile.time_layers = options_.time_layers;
  compile.exchange = meeting_.get();
  for (const auto& build : builds_) {
    const std::optional<ResidentSet> set = build->resident_set();
    resident_sets_.push_back(set ? static_cast<std::int32_t>(compile.resident_sets.size()) : -1);
    if (set) compile.resident_sets.push_back(*set);
    build->add_requests(compile.request);
  }
  return compile;
}

Session::Replicas Session::compiled(const CompileOptions& shared) const {
  Replicas replicas;
  for (std::size_t r = 0; r < devices_.devices.size(); ++r) {
    CompileOptions compile = shared;
    compile.replica = devices_.first_replica + r;
    compile.plans = plans_for(devices_.devices[r]->info(), compile.replica, metadata_);
    for (const auto& build : builds_) {
      if (build->batch().size == 0) continue;
      // A replica without a share has gradients all the same, laid out as the others' are: zeros that are summed.
      const auto shares = split(build->batch().size, devices_.all_replicas, pipeline_.run.load);
      const std::uint32_t share = std::max(shares[compile.replica].count, 1U);
      const std::uint32_t pieces = build->trains() ? compile.request.micro_batches : 1;
      std::uint32_t& largest = build->trains() ? compile.train_batch : compile.infer_batch;
      largest = std::max(largest, (share + pieces - 1) / pieces);
      if (!build->trains()) continue;
      for (const auto& each : shares)
        compile.largest_train_batch = std::max(compile.largest_train_batch, (each.count + pieces - 1) / pieces);
    }
    const DeviceInfo& device = devices_.devices[r]->info();
    doing(fmt::format("compiling the network for {}:{}", device.backend, device.index));
    replicas.push_back(devices_.devices[r]->compile(*pipeline_.network, compile));
  }
  return replicas;
}

// A batch that is kept when it is not full, and is larger than all samples, would be memory that nothing fills. Where a graph
// trains, the size says more: how much of it a replica computes, and by what learning rates are scaled.
void Session::limit_batch(GraphBuild& build) const {
  const BatchSpec& batch = build.batch();
  if (build.source() == nullptr || build.trains() || batch.last != BatchSpec::Last::keep || batch.size <= build.samples()) return;
  const auto samples = static_cast<std::uint32_t>(build.samples());
  if (devices_.all_replicas > 0) {
    const auto without = [](const Share& share) { return share.count == 0; };
    if (std::ranges::any_of(split(samples, devices_.all_replicas, pipeline_.run.load), without)) return;
  }
  build.set_batch_size(samples);
}

// What may be meant, and rarely is.
void Session::warn_of_graphs() {
  if (!is_first()) return;
  for (const auto& build : builds_) {
    const GraphPlan& plan = build->plan();
    const std::string lack = build->lack_of_classes(*builds_.front());
    if (!lack.empty()) observers_.warn(lack);
    std::string values = warning_of_label_values(*build, static_cast<std::uint64_t>(pipeline_.run.seed));
    if (!values.empty()) observers_.warn(std::move(values));
    if (plan.every.empty() || !loses_results(plan)) continue;
    observers_.warn(
        fmt::format("{}: no stage of [{}] reports or writes what the network makes of its images; put 'metrics' into its flow",
                    to_string(plan.at), plan.name));
  }
}

void Session::compile() {
  for (const auto& build : builds_) limit_batch(*build);
  CompileOptions shared;
  if (pipeline_.network) {
    meeting_ = std::make_unique<Meeting>(devices_.first_replica, devices_.devices.size(), devices_.all_replicas, options_.group);
    shared = compile_options();
    evaluated_ = shared.request.evaluated;
    copies_ = shared.request.copies;
  }
  const bool chooses = std::any_of(builds_.begin(), builds_.end(), [](const auto& build) { return build->chooses_batch(); });
  if (chooses) {
    choose_batch(shared);
  } else if (pipeline_.network) {
    replicas_ = compiled(shared);
  }
  if (pipeline_.network) check_batches(shared.request);
}

void Session::check_batches(const CompileRequest& request) const {
  for (const auto& build : builds_) {
    const BatchSpec& batch = build->batch();
    if (!build->trains() || batch.size == 0) continue;
    TrainedBatches batches{.graph = build->plan().name, .size = batch.size, .replicas = devices_.all_replicas};
    batches.load = pipeline_.run.load;
    if (batch.last == BatchSpec::Last::keep) batches.last = static_cast<std::uint32_t>(build->samples() % batch.size);
    require_variance(*pipeline_.network, request, batches);
  }
}

namespace {

std::string place_of_size(const GraphBuild& build) {
  const StagePlan& batcher = build.batcher();
  const Value* size = batcher.table.find("size");
  return place_of_stage(size ? size->at() : batcher.table_at(), build.plan().name, batcher.name) + " size = \"auto\"";
}

}  // namespace

// One size for all graphs that leave it open, and never more than the samples that a graph has.
void Session::choose_batch(const CompileOptions& shared) {
  constexpr std::uint64_t kMost = 1 << 24;
  const GraphBuild* first = nullptr;
  std::uint64_t most = 1;
  for (const auto& build : builds_) {
    if (!build->chooses_batch()) continue;
    if (first == nullptr) first = build.get();
    most = std::max(most, std::min(build->samples(), kMost));
  }
  try {
    find_memory_limits();
    if (kept_batch_ > 0) {
      if (!try_batch(kept_batch_, shared))
        fail(ErrorKind::usage, "the run began with {}, and now it does not fit: {}", kept_batch_, lack_);
      batch_choice_ = fmt::format("batch size: {} (the checkpoint's)", kept_batch_);
      return;
    }
    const auto replicas = static_cast<std::uint32_t>(std::max<std::size_t>(devices_.all_replicas, 1));
    const std::uint32_t mine = largest_batch(replicas * shared.request.micro_batches, static_cast<std::uint32_t>(most),
                                             [&](std::uint32_t size) { return try_batch(size, shared); });
    const std::uint32_t agreed = agree_on_batch(mine);
    if (agreed != mine) {
      if (!try_batch(agreed, shared)) fail(ErrorKind::usage, "what other processes hold does not fit: {}", lack_);
      lack_ = "another process has no memory for more";
    }
    set_batch(agreed);
  } catch (Error& error) {
    throw error.in(place_of_size(*first));
  }
  const std::string why = first->batch().size == first->samples() ? "all samples of an epoch" : lack_.substr(0, lack_.find('\n'));
  batch_choice_ = fmt::format("batch size: {}{}", first->batch().size, why.empty() ? "" : fmt::format(" ({})", why));
}

// A run that goes on has the batches that it began with, whatever memory there is now. All processes have the same checkpoint.
void Session::keep_batch() {
  Diagnostics errors;
  const auto then = parse_toml(resumed_->checkpoint.pipeline, (resumed_->path / "pipeline.toml").string(), errors);
  errors.throw_if_any();
  for (const auto& build : builds_) {
    const Value* graph = build->chooses_batch() ? then->find(build->plan().name) : nullptr;
    const Value* batcher = graph != nullptr ? graph->find(build->batcher().name) : nullptr;
    const Value* size = batcher != nullptr ? batcher->find("size") : nullptr;
    if (size == nullptr || size->kind() != Value::Kind::integer) continue;
    build->set_batch_size(static_cast<std::uint32_t>(size->integer()));
    kept_batch_ = std::max(kept_batch_, build->batch().size);
  }
}

void Session::set_batch(std::uint32_t size) {
  for (const auto& build : builds_) {
    if (!build->chooses_batch()) continue;
    build->set_batch_size(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(size, std::max<std::uint64_t>(build->samples(), 1))));
  }
}

// Keeps the replicas of a size that fits. What a device refuses counts as what does not fit: it may be too large for a kernel.
bool Session::try_batch(std::uint32_t size, const CompileOptions& shared) {
  set_batch(size);
  Replicas replicas;
  try {
    if (pipeline_.network) replicas = compiled(shared);
  } catch (const Error& error) {
    refused_ = error;
    lack_ = error.what();
    return false;
  }
  const std::string lack = lack_of_memory(replicas);
  if (lack.empty()) {
    replicas_ = std::move(replicas);
    return true;
  }
  refused_.reset();
  lack_ = fmt::format("with {}, {}", size, lack);
  return false;
}

// The least that any process has found; all call it. Throws where one has found none.
std::uint32_t Session::agree_on_batch(std::uint32_t size) const {
  if (size == 0 && options_.group == nullptr) {
    if (refused_) throw *refused_;
    fail(ErrorKind::usage, "no batch fits: {}", lack_);
  }
  if (options_.group == nullptr) return size;
  std::uint32_t least = size;
  const auto all = options_.group->all_gather(Group::kRun, WireWriter().put(size).put(lack_).bytes());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(all[rank]);
    const auto theirs = reader.get<std::uint32_t>();
    if (theirs == 0) {
      options_.group->leave("");  // in good order: all processes find the same, and none is lost by it
      fail(ErrorKind::usage, "no batch fits: process {}: {}", rank, reader.get<std::string>());
    }
    least = std::min(least, theirs);
  }
  return least;
}

Value Session::resolved() const {
  Value resolved = with_median_weights(pipeline_.resolved, median_weights_);
  for (const auto& build : builds_) {
    if (!build->chooses_batch()) continue;
    Value& graph = *resolved.find(build->plan().name);
    const std::string& batcher = build->batcher().name;
    if (graph.find(batcher) == nullptr) graph.set(batcher, Value());
    graph.find(batcher)->set("size", Value(static_cast<std::int64_t>(build->batch().size)));
  }
  return resolved;
}

}  // namespace millrace
