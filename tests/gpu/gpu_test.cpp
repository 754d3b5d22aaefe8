#include "gpu_fixture.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "finished_tests.h"
#include "millrace/util/load_plugins.h"
#include "testkit/filled_buckets.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/optimizers.h"

namespace millrace::gpu {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// Loaded once for all tests: reloading a GPU's libraries would take longer than most of them.
struct Found {
  std::string name = from_environment("MILLRACE_GPU_TEST_BACKEND", "cuda");
  Registry registry;
  std::shared_ptr<Backend> backend, cpu;

  Found() {
    load_all_plugins(registry);
    backend = make(name);
    cpu = make("cpu");
  }
  std::shared_ptr<Backend> make(const std::string& wanted) const {
    const BackendType* type = registry.backends().find(wanted);
    return type == nullptr ? nullptr : type->create();
  }
  std::string unavailable_reason() const {
    if (backend) return "no device: " + backend->unavailable_reason();
    return fmt::format("no plugin provides backend '{}' {}", name, fmt::join(load_errors(registry), "; "));
  }
};

Found& found() {
  static Found once;
  return once;
}

}  // namespace

std::string why_device_is_lost() {
  if (!found().backend || found().backend->devices().empty()) return {};
  try {
    const std::unique_ptr<Device> device = found().backend->open(0, {});
    device->make_stream("after a test")->record()->wait();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

void GpuTest::SetUp() {
  if (!found().backend || found().backend->devices().empty()) GTEST_SKIP() << found().unavailable_reason();
  if (!found().cpu) GTEST_SKIP() << "there is no backend 'cpu' to compare with";
  device_ = backend().open(0, {});
  oracle_ = found().cpu->open(0, {});
}

bool GpuTest::on_gpu() const { return found().name != "cpu"; }
Backend& GpuTest::backend() { return *found().backend; }
const Registry& GpuTest::registry() { return found().registry; }

std::string pipelines_folder() { return from_environment("MILLRACE_PIPELINES", MILLRACE_SOURCE_DIR "/pipelines"); }

Arrays random_values(const Network& network, std::uint64_t seed) {
  Arrays values;
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    Parameter parameter = network.parameters[p];
    if (parameter.initialiser.rule == "whiten") parameter.initialiser.rule = "he_normal";  // no data to whiten here
    values.push_back(initial_values(parameter, seed));
    if (!parameter.trainable || parameter.initialiser.rule != "constant") continue;
    Draw draw(seed, {0, p, 0, 0}, hash_text("random values"));
    for (float& value : values.back()) value += static_cast<float>(0.1 * draw.normal());
  }
  return values;
}

Ref<Batch> random_batch(Device& device, const Network& network, std::uint32_t size, std::uint64_t seed) {
  // The pinned copy of the pixels is destroyed with the batch.
  struct PinnedBatch : Batch {
    Ref<Batch> plain;
    std::shared_ptr<std::uint8_t[]> memory;
  };
  const Ref<Batch> plain = testkit::make_batch(size, network.input);
  testkit::fill_at_random(*plain, static_cast<std::int32_t>(network.output().elements()), seed);
  Draw draw(seed, {}, hash_text("records"));
  for (std::uint32_t slot = 0; slot < size; ++slot) {
    AugmentationRecord& record = plain->records[slot];
    record = {};
    record.border = slot % 3 == 0 ? Border::constant : slot % 3 == 1 ? Border::reflect : Border::edge;
    if (draw.integer(0, 1) == 1) record.flip_x(network.input.width);
    record.translate(static_cast<int>(draw.integer(-2, 2)), static_cast<int>(draw.integer(-2, 2)));
  }
  auto pinned = make_ref<PinnedBatch>();
  pinned->plain = plain;
  pinned->memory = device.host_buffer(size * network.input.bytes());
  std::memcpy(pinned->memory.get(), plain->pixels, size * network.input.bytes());
  pinned->count = size;
  pinned->weight = size;
  pinned->image = pinned->window = network.input;
  pinned->samples = plain->samples;
  pinned->pixels = pinned->memory.get();
  pinned->records = plain->records;
  pinned->labels = plain->labels;
  pinned->weights = plain->weights;
  return pinned;
}

namespace {

// Adds an optimizer if the test has none.
CompileOptions completed(CompileOptions options, const Network& network, const std::vector<LossOutput>& outputs) {
  for (const auto& [output, weight] : outputs) options.request.losses.emplace_back(testkit::cross_entropy(0.1), output);
  if (options.request.update.optimizers.empty()) options.request.update = testkit::sgd(network, 0.9, 1e-3, true);
  return options;
}

}  // namespace

Trainee::Trainee(Device& device, std::shared_ptr<const Network> network, const CompileOptions& options, const Arrays& values,
                 std::vector<LossOutput> outputs)
    : network_(std::move(network)),
      outputs_(std::move(outputs)),
      sums_(std::max<std::size_t>(outputs_.size(), 1)),
      replica_(device.compile(*network_, completed(options, *network_, outputs_))) {
  replica_->start();
  for (std::size_t p = 0; p < values.size(); ++p) replica_->write(kValue, static_cast<int>(p), values[p]);
}

Ref<Event> Trainee::step(const Ref<Batch>& batch, std::uint64_t number, double rate) {
  replica_->ingest(batch, 0, batch->count);
  replica_->forward(number);
  std::vector<LossTerm> terms;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    terms.push_back({testkit::cross_entropy(0.1), batch->weight / outputs_[i].second, &sums_[i], outputs_[i].first});
  }
  if (terms.empty()) terms.push_back({testkit::cross_entropy(0.1), batch->weight, sums_.data()});
  replica_->losses(terms);
  FilledBuckets filled(replica_->buckets().size());
  replica_->backward(filled.callback());
  UpdateStep update;
  update.step = number;
  update.learning_rate = rate;
  Ref<Event> last;
  for (int bucket = 0; bucket < static_cast<int>(replica_->buckets().size()); ++bucket) {
    last = replica_->update(bucket, update, filled.wait_for(bucket));
  }
  return last;
}

double Trainee::loss() {
  replica_->finish();
  return sums_[0].loss() / sums_[0].weight();
}

Arrays Trainee::all(std::string_view state) {
  Arrays arrays;
  for (std::size_t p = 0; p < network_->parameters.size(); ++p) {
    const Parameter& parameter = network_->parameters[p];
    const bool there = state == kValue || (parameter.trainable && !parameter.statistic);
    arrays.push_back(there ? replica_->read(state, static_cast<int>(p)) : std::vector<float>());
  }
  return arrays;
}

}  // namespace millrace::gpu
