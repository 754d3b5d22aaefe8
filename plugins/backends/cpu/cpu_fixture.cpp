#include "cpu_fixture.h"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "losses.h"
#include "primitives.h"
#include "testkit/losses.h"
#include "testkit/networks.h"

namespace millrace::cpu::test {

std::shared_ptr<const Network> network_from(const std::string& path) {
  return testkit::network_from_file(path.front() == '/' ? path : MILLRACE_SOURCE_DIR "/" + path);
}

std::shared_ptr<const Network> network_of(const std::string& toml) { return testkit::network_from_text(toml); }

std::vector<float> noise(std::size_t size, std::uint64_t seed) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t bits = mix64(combine(seed, i)) >> 40;  // 24 bits
    values[i] = static_cast<float>(bits) / 8388608.0F - 1.0F;
  }
  return values;
}

std::vector<std::vector<float>> parameter_values(const Network& network, std::uint64_t seed) {
  std::vector<std::vector<float>> all;
  for (std::size_t index = 0; index < network.parameters.size(); ++index) {
    const Parameter& parameter = network.parameters[index];
    std::vector<float> values = noise(static_cast<std::size_t>(parameter.shape.elements()), combine(seed, index));
    const double fan_in = static_cast<double>(parameter.shape.elements() / parameter.shape[0]);
    const bool around_one = parameter.name.ends_with("running_var") || parameter.initialiser.value == 1;
    for (float& value : values) {
      if (parameter.shape.rank() > 1)
        value *= static_cast<float>(std::sqrt(3.0 / fan_in));
      else
        value = around_one ? 1.0F + 0.4F * value : 0.3F * value;
    }
    all.push_back(std::move(values));
  }
  return all;
}

namespace {

CompileOptions with_batches(CompileOptions options, std::uint32_t samples, bool training) {
  options.train_batch = training ? samples : 0;
  options.infer_batch = training ? 0 : samples;
  options.request.may_fold = !training;
  return options;
}

}  // namespace

Laboratory::Laboratory(std::shared_ptr<const Network> network, std::int64_t samples, bool training, const CompileOptions& options,
                       const PrimitiveChecks& checks)
    : network_(std::move(network)),
      options_(with_batches(options, static_cast<std::uint32_t>(samples), training)),
      parameters_(*network_, options_) {
  const dnnl::engine engine = processor();
  compile_context_ = std::make_unique<CompileContext>(CompileContext{
      *network_, options_, preferred_layout(*network_, options_, engine), parameters_, engine, dnnl::stream(engine)});
  compile_context_->checks = checks;
  executable_ = std::make_unique<Executable>(
      *compile_context_, training ? fused(*network_) : fused_to_predict(*network_, options_.request.outputs), samples, training);
  parameters_.finish_planning();
  parameters_.start();
  arena_ = MemoryRegion(executable_->arena_bytes());
  executable_->bind(arena_.as<std::byte>());
}

void Laboratory::write(int parameter, const std::vector<float>& values) {
  parameters_.write(kValue, parameter, values, compile_context_->engine);
}

std::vector<float> Laboratory::read(std::string_view state, int parameter) {
  return parameters_.read(state, parameter, compile_context_->engine);
}

void Laboratory::set_input(const std::vector<float>& values) {
  using dnnl::memory;
  const memory::desc& wanted = executable_->input_desc();
  const memory::desc plain(dims_of(wanted), memory::data_type::f32, memory::format_tag::nchw);
  memory from(plain, compile_context_->engine, const_cast<float*>(values.data()));  // NOLINT: only read
  memory to(wanted, compile_context_->engine, executable_->input().data);
  dnnl::reorder(from, to).execute(compile_context_->stream, from, to);
}

namespace {

std::vector<float> rows_of(const Map& map) {  // a vector output: (samples, channels)
  const auto* const values = static_cast<const float*>(map.data);
  return {values, values + map.elements()};
}

}  // namespace

std::vector<float> Laboratory::forward() {
  executable_->forward({});
  return rows_of(executable_->output());
}

double Laboratory::loss(const std::vector<std::int32_t>& labels, double smoothing, bool sum) {
  const auto samples = static_cast<std::uint32_t>(executable_->output().n);
  std::vector<std::int32_t> all = labels;
  std::vector<float> weights(samples, 1.0F);
  Batch batch;
  batch.labels = all.data();
  batch.weights = weights.data();
  LossInputs inputs;
  inputs.take(batch, 0, samples, {});
  Losses losses(*network_);
  const StepSums sums =
      losses.run(testkit::cross_entropy(smoothing), {executable_->output(), &executable_->plan().measured().front().d_output()},
                 inputs, samples, sum ? 1 : samples);
  return sum ? sums.loss() : sums.loss() / sums.weight();
}

std::vector<float> Laboratory::d_logits() const { return rows_of(executable_->plan().measured().front().d_output()); }

double relative_difference(const std::vector<float>& values, const std::vector<float>& expected) {
  if (values.size() != expected.size()) throw std::invalid_argument("sizes differ");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double d = static_cast<double>(values[i]) - static_cast<double>(expected[i]);
    difference += d * d;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace millrace::cpu::test
