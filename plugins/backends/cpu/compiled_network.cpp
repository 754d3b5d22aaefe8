#include "compiled_network.h"

#include <algorithm>

#include "primitives.h"

namespace millrace::cpu {
namespace {

Network frozen(Network network) {
  for (Parameter& parameter : network.parameters) parameter.trainable = false;
  return network;
}

}  // namespace

ScoreGradients::ScoreGradients(const Network& network) : network_(frozen(network)) {}

void ScoreGradients::compile(const CompileOptions& options, const CompileContext& shared) {
  check_gradients(network_, options.request);
  if (options.request.gradients.empty()) return;
  compile_context_ = std::make_unique<CompileContext>(
      CompileContext{network_, options, shared.layout, shared.parameters, shared.engine, shared.stream, shared.checks});
  CompileOptions inference = options;
  inference.train_batch = 0;
  for (const ScoreGradient& gradient : options.request.gradients) compile(inference, gradient.by);
}

void ScoreGradients::compile(const CompileOptions& inference, LayerPort by) {
  const auto [found, is_new] = compiled_.try_emplace(by);
  if (!is_new) return;
  Compiled& compiled = found->second;
  compiled.nodes = fused(network_, {by});
  compiled.executables.compile(inference, [this, &compiled, by](const auto& use) {
    return std::make_unique<Executable>(*compile_context_, compiled.nodes, use.samples, true, by);
  });
}

std::size_t ScoreGradients::arena_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [by, compiled] : compiled_) bytes = std::max(bytes, compiled.executables.arena_bytes());
  return bytes;
}

void ScoreGradients::bind(std::byte* arena) const {
  for (const auto& [by, compiled] : compiled_) {
    compiled.executables.each([arena](Executable& executable) { executable.bind(arena); });
  }
}

Executables<Executable>& ScoreGradients::by(LayerPort value) {
  if (const auto found = compiled_.find(value); found != compiled_.end()) return found->second.executables;
  fail(ErrorKind::usage, "no gradient by the output of {} is computed: name it in CompileRequest::gradients",
       place_of(network_.layers[static_cast<std::size_t>(value.layer)]));
}

CompiledNetwork::CompiledNetwork(const Network& network, const CompileOptions& options, ParameterStore& parameters)
    : network_(network),
      options_(options),
      parameters_(parameters),
      phases_(network, options.request),
      training_nodes_(fused(network, options.request.loss_outputs(network))),
      inference_nodes_(fused(network, options.request.outputs)),
      gradients_(network) {}

void CompiledNetwork::compile(const PrimitiveChecks& checks) {
  const dnnl::engine engine = processor();
  const Layout layout = preferred_layout(network_, options_, engine);
  contexts_.push_back({phases_.network(0), options_, layout, parameters_, engine, dnnl::stream(engine), checks});
  // The executable planned first chooses the layout of weights.
  if (options_.largest_train_batch > options_.train_batch) {
    Executable(contexts_.front(), training_nodes_, options_.largest_train_batch, true);
  }
  executables_.compile(options_, [this](const auto& use) {
    const std::vector<Node>& nodes = use.training ? training_nodes_ : inference_nodes_;
    return std::make_unique<Executable>(context_of(use.phase), nodes, use.samples, use.training);
  });
  gradients_.compile(options_, contexts_.front());
  parameters_.finish_planning(checks);
  contexts_.front().checks.release_memory();
  bucket_nodes_ = first_nodes(network_, training_nodes_, parameters_.plan().parameters.buckets());
}

CompileContext& CompiledNetwork::context_of(std::size_t phase) {
  while (contexts_.size() <= phase) {
    const CompileContext& first = contexts_.front();
    contexts_.push_back(
        {phases_.network(contexts_.size()), options_, first.layout, parameters_, first.engine, first.stream, first.checks});
  }
  return contexts_[phase];
}

std::size_t CompiledNetwork::arena_bytes() const { return std::max(executables_.arena_bytes(), gradients_.arena_bytes()); }

void CompiledNetwork::start() { bind_all(); }

void CompiledNetwork::bind_all() {
  arena_ = MemoryRegion(arena_bytes());
  executables_.each([this](Executable& executable) { executable.bind(arena_.as<std::byte>()); });
  gradients_.bind(arena_.as<std::byte>());
}

Executable& CompiledNetwork::get(Executables<Executable>& among, const Executables<Executable>::Use& use) {
  const auto [executable, is_new] = among.get(use, [] {});
  if (!is_new) return executable;
  contexts_.front().checks.release_memory();
  if (executable.arena_bytes() > arena_.bytes())  // oneDNN may want more scratch memory for fewer samples, but hardly ever does
    bind_all();
  else
    executable.bind(arena_.as<std::byte>());
  return executable;
}

Executable* CompiledNetwork::full_training(std::uint64_t epoch) {
  return options_.train_batch > 0 ? &training(options_.train_batch, epoch) : nullptr;
}

}  // namespace millrace::cpu
