#include "score_gradients.h"

#include <algorithm>

#include "map_values.h"

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

void read_gradient(Executable& network, const Pass& pass, std::span<const std::int32_t> labels, const GradientCopy& copy) {
  const auto numbers = scored_numbers(copy.gradient, values_of(network.output()), labels);
  const Map& scores = network.measured().front().d_output();
  zero(scores);
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] >= 0) element_of(scores, static_cast<std::int64_t>(n), numbers[n]) = 1;
  }
  network.backward(pass, [](int) {});
  read_map(network.gradient(), copy.host);
}

}  // namespace millrace::cpu
