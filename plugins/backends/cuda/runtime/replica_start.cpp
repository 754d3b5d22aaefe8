// How a replica begins: what it tries before it is planned, its memory, and a rehearsal.
#include <fmt/format.h>

#include <cstring>

#include "millrace/error.h"
#include "replica.h"

namespace millrace::cuda {
namespace {

// (byte / 255 - mean) / deviation for every byte of every channel.
std::vector<float> pixel_table(const Network& network) {
  std::vector<float> values;
  for (std::size_t c = 0; c < network.mean.size(); ++c) {
    for (int byte = 0; byte < 256; ++byte) {
      values.push_back(static_cast<float>((byte / 255.0 - network.mean[c]) / network.deviation[c]));
    }
  }
  return values;
}

}  // namespace

// Only training has shortcuts.
Shortcuts GpuReplica::choose_shortcuts() {
  Shortcuts wanted = Shortcuts::from_environment();
  wanted.recordings = wanted.recordings && options_.graphs && !options_.time_layers;
  if (options_.train_batch == 0) return wanted;
  std::vector<std::string> refused;
  const Shortcuts chosen = try_shortcuts(*machine_, wanted, refused);
  for (const std::string& why : refused) machine_->warn(fmt::format("{}: {}", machine_->info().name, why));
  return chosen;
}

std::vector<Node> GpuReplica::fuse_for(std::vector<LayerPort> outputs) const {
  const bool pool = workshops_.front().shortcuts.norm_pool;
  return fuse(network_, {.backend = "cuda", .pool_behind_relu = pool, .outputs = std::move(outputs)});
}

CompileContext& GpuReplica::workshop_of(std::size_t phase) {
  while (workshops_.size() <= phase) {
    const CompileContext& first = workshops_.front();
    workshops_.push_back({phases_.network(workshops_.size()), options_, parameters_, *machine_, first.shortcuts, first.scalars,
                          first.ticket_bytes, first.tickets, false, first.layers});
  }
  return workshops_[phase];
}

void GpuReplica::start() {
  const std::size_t free = machine_->free_memory();
  try {
    allocate();
  } catch (const Error& error) {
    const MemoryPlan plan = memory_plan();
    if (error.kind() != ErrorKind::device || plan.total() <= free) throw;
    fail(ErrorKind::device, "{}. {}", error.message(), memory_advice(plan, free));
  }
  for (const bool training : {true, false}) {
    if (Executable* full = executables_.full(training)) rehearse(*full, training);
  }
  finish();
}

void GpuReplica::rehearse(Executable& network, bool training) {
  CompileContext& compile_context = workshops_.front();
  compile_context.rehearsal = true;
  network.begin(*compute_);
  compute_->zero(network.input().data, network.input().spec.bytes());
  network.forward(*compute_);
  if (training) {
    for (const Executable::Measured& each : network.measured())
      compute_->zero(each.d_output().data, each.d_output().spec.bytes());
    network.backward(*compute_, [](int) {});
  }
  compile_context.rehearsal = false;
  if (!training) return;
  ++network.passes;
  announced_ = static_cast<int>(filled_buckets(buckets(), 0));
  if (graphs_) record_forward(network);
  if (graphs_) record_backward(network);
}

void GpuReplica::allocate() {
  compute_ = machine_->make_queue("compute");
  update_ = machine_->make_queue("update");
  parameters_.start(*machine_);
  const std::vector<float> table = pixel_table(network_);
  table_ = DeviceMemory(*machine_, table.size() * sizeof(float), "table of pixel values");
  CompileContext& compile_context = workshops_.front();
  scalars_ = DeviceMemory(*machine_, sizeof(StepScalars), "step");
  compile_context.scalars = scalars_.as<StepScalars>();
  tickets_ = DeviceMemory(*machine_, compile_context.ticket_bytes, "tickets of sums");
  compile_context.tickets = tickets_.as<std::uint32_t>();
  losses_.start();
  summed_logits_ = DeviceMemory(*machine_, summed_logit_bytes(options_.request.sums_views), "logits of several views");
  trace_ = StepTrace::from_environment(*machine_);
  if (options_.time_layers) layers_ = std::make_unique<StepTrace>(*machine_, false, "");
  compile_context.layers = layers_.get();
  staging_ =
      std::make_unique<Staging>(*machine_, most_samples_, network_.input, TargetNeeds::of(network_, options_.request.losses),
                                options_.resident_sets, trace_.get(), meter_.get());
  filled_.resize(buckets().size());
  rebind(executables_.arena_bytes());
  const HostMemory host(*machine_, table_.bytes());  // last: nothing that could fail comes between the copy and its end
  machine_->host_access(host.data(), host.bytes(), true);
  std::memcpy(host.data(), table.data(), host.bytes());
  compute_->copy_in(table_.data(), host.data(), host.bytes());
  compute_->mark()->wait();
}

}  // namespace millrace::cuda
