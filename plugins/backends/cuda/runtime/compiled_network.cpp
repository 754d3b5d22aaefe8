#include "compiled_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "trace.h"

namespace millrace::cuda {
namespace {

// Shortcuts are only for training.
Shortcuts supported_shortcuts(Machine& machine, const CompileOptions& options) {
  Shortcuts wanted = Shortcuts::from_environment();
  wanted.recordings = wanted.recordings && options.graphs && !options.time_layers;
  if (options.train_batch > 0) wanted.recordings = wanted.recordings && recordings_work(machine);
  return wanted;
}

}  // namespace

CompiledNetwork::CompiledNetwork(Machine& machine, const Network& network, const CompileOptions& options,
                                 ParameterStore& parameters)
    : machine_(machine),
      network_(network),
      options_(options),
      parameters_(parameters),
      phases_(network, options.request),
      contexts_(1, {phases_.network(0), options, parameters, machine, supported_shortcuts(machine, options)}),
      training_nodes_(fuse_for(options.request.loss_outputs(network))),
      inference_nodes_(fuse_for(options.request.outputs)) {
  executables_.compile(options_, [this](const auto& use) {
    if (drain_) drain_();  // during a run: engines may be timed, with the device otherwise idle
    const std::vector<Node>& nodes = use.training ? training_nodes_ : inference_nodes_;
    return std::make_unique<Executable>(context_of(use.phase), nodes, use.samples, use.training);
  });
  parameters_.finish_planning(machine_);
  bucket_nodes_ = first_nodes(network_, training_nodes_, parameters_.plan().parameters.buckets());
}

std::vector<Node> CompiledNetwork::fuse_for(std::vector<LayerPort> outputs) const {
  return fuse(network_, {.backend = "cuda", .pool_behind_relu = shortcuts().norm_pool, .outputs = std::move(outputs)});
}

CompileContext& CompiledNetwork::context_of(std::size_t phase) {
  while (contexts_.size() <= phase) {
    const CompileContext& first = contexts_.front();
    contexts_.push_back({phases_.network(contexts_.size()), options_, parameters_, machine_, first.shortcuts, first.scalars,
                         first.ticket_bytes, first.tickets, false, first.layers});
  }
  return contexts_[phase];
}

void CompiledNetwork::start(std::function<void()> drain) {
  drain_ = std::move(drain);
  CompileContext& context = contexts_.front();
  scalars_ = DeviceMemory(machine_, sizeof(StepScalars), "step");
  context.scalars = scalars_.as<StepScalars>();
  tickets_ = DeviceMemory(machine_, context.ticket_bytes, "tickets of sums");
  context.tickets = tickets_.as<std::uint32_t>();
  if (options_.time_layers) layer_meter_ = std::make_unique<DeviceMeter>(machine_, TraceRequest::kMaxSpans);
  context.layers = layer_meter_.get();
  bind_all(arena_bytes());
}

void CompiledNetwork::bind_all(std::size_t arena_bytes) {
  if (arena_bytes > arena_.bytes()) {
    arena_ = DeviceMemory();
    arena_ = DeviceMemory(machine_, arena_bytes, "activations, their gradients and workspaces");
  }
  executables_.each([this](Executable& executable) {
    executable.bind(arena_.data());
    executable.recorded = {};
  });
}

Executable& CompiledNetwork::get(const Executables<Executable>::Use& use) {
  const auto [executable, is_new] = executables_.get(use, drain_);
  if (!is_new) return executable;
  if (executable.arena_bytes() > arena_.bytes()) {  // a library may want more workspace for fewer samples, but hardly ever does
    drain_();
    bind_all(executable.arena_bytes());
  } else {
    executable.bind(arena_.data());
  }
  return executable;
}

void CompiledNetwork::rehearse(Executable& network, Queue& queue) {
  CompileContext& context = contexts_.front();
  context.rehearsal = true;
  network.begin(queue);
  queue.zero(network.input().data, network.input().spec.bytes());
  network.forward(queue);
  if (&network == full(true)) {
    for (const auto& each : network.plan().measured()) queue.zero(each.d_output().data, each.d_output().spec.bytes());
    network.backward(queue, [](int) {});
  }
  context.rehearsal = false;
}

std::string CompiledNetwork::engines() const {
  std::string text;
  for (const bool training : {true, false}) {
    if (const Executable* network = full(training)) text += network->describe();
  }
  return text;
}

std::vector<LayerTime> CompiledNetwork::layer_times() const {
  std::vector<LayerTime> times = executables_.layer_times();
  for (const WorkSpan& span : layer_meter_->spans()) {
    const auto layer = std::find_if(times.begin(), times.end(), [&](const LayerTime& time) { return time.layer == span.queue; });
    if (layer == times.end()) continue;
    const bool forward = span.what == Executable::kForward;
    (forward ? layer->forward : layer->backward) += span.end - span.begin;
    layer->passes += forward ? 1 : 0;
  }
  return times;
}

}  // namespace millrace::cuda
