#include "testkit/conformance_compute.h"

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/loss.h"
#include "testkit/conformance.h"
#include "testkit/gradient_check.h"
#include "testkit/layer_examples.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "toml/document.h"

namespace millrace::conformance {

Made compile(const Registry& registry, const char* backend, const Network& network, Precision precision, bool recompute,
             std::vector<std::shared_ptr<const Loss>> losses) {
  Made made;
  made.backend = registry.backends().find(backend)->create();
  made.device = made.backend->open(0, {});
  CompileOptions options;
  options.train_batch = options.infer_batch = kBatch;
  options.precision = precision;
  options.recompute = recompute;
  options.request.losses.assign(losses.begin(), losses.end());
  made.replica = made.device->compile(network, options);
  made.replica->start();
  testkit::randomise(network, *made.replica, 1);
  return made;
}

Ref<Batch> batch_of(const Network& network) {
  Ref<Batch> batch = testkit::make_batch(kBatch, network.input);
  testkit::fill_at_random(*batch, testkit::kExampleClasses, 2);
  return batch;
}

std::shared_ptr<const Network> network_for(const Registry& registry, const Shape& output, bool wide) {
  const bool map = output.rank() == 3;
  const std::string last = map ? fmt::format("{{ op = \"conv\", out = {}, kernel = 1 }}", output[0])
                               : fmt::format("{{ op = \"linear\", out = {} }}", output[0]);
  return testkit::network_from_text(
      fmt::format("input = {{ channels = 3, height = {}, width = {} }}\n"
                  "layers = [ {{ op = \"conv\", out = {}, kernel = 3, padding = 1 }}, {{ op = \"gelu\" }}, {} ]\n",
                  map ? output[1] : 4, map ? output[2] : 5, wide ? 32 : 6, last),
      registry);
}

LossData::LossData(const Network& network, const Loss& loss, int scale, ImageShape image)
    : batch(testkit::make_batch(kBatch, image.is_static() ? image : network.input, network.input)) {
  const auto channels = static_cast<std::int32_t>(network.output()[0]);
  testkit::fill_at_random(*batch, channels, 2);
  batch->records[1].flip_x(network.input.width);
  batch->records[2].translate(1, -1);
  batch->records[3].flip_y(network.input.height);
  batch->records[3].translate(2, 2);
  batch->records[3].border = Border::reflect;
  batch->weights[4] = 0;
  batch->weight = kBatch - 1;
  Draw draw(5, {}, hash_text("targets"));
  const bool map = network.output().rank() == 3;
  if (loss.info().target == LossTarget::classes) batch->target.kind = TargetSpec::Kind::classes;
  if (loss.info().target == LossTarget::values && map) batch->target.kind = TargetSpec::Kind::image;
  batch->target.scale = scale;
  for (std::size_t i = 0; i < kBatch * batch->target_bytes(); ++i) {
    const bool classes = batch->target.kind == TargetSpec::Kind::classes;
    const auto value = draw.integer(0, classes ? channels - 1 : 255);
    targets.push_back(classes && draw.chance(0.1) ? batch->target.ignored : static_cast<std::uint8_t>(value));
  }
  batch->targets = targets.empty() ? nullptr : targets.data();
  if (loss.info().target != LossTarget::values || map) return;
  batch->numbers_per_sample = static_cast<std::uint32_t>(channels);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kBatch) * channels; ++i) {
    numbers.push_back(static_cast<float>(draw.normal()));
  }
  batch->numbers = numbers.data();
}

namespace {

constexpr double kMaxError = 1e-2;

// A line for an example with wrong gradients, with its worst parameter.
void expect_gradients(const testkit::GradientReport& found, const std::string& where, const char* what, Report& report) {
  if (found.worst() < kMaxError) return;
  const std::string text = found.text();
  const auto wrong =
      std::count_if(found.entries.begin(), found.entries.end(), [](const auto& entry) { return !(entry.error() < kMaxError); });
  report.add(fmt::format("{}: {}; {}{}", where, what, text.substr(0, text.find('\n')),
                         wrong > 1 ? fmt::format(", and {} more", wrong - 1) : ""));
}

// The processor, and the simulated GPU if available.
std::vector<const char*> backends_of(const Registry& registry, Report& report) {
  std::vector<const char*> found;
  for (const char* name : {"cpu", "simulated"}) {
    const BackendType* type = registry.backends().find(name);
    if (type != nullptr && !type->create()->devices().empty()) found.push_back(name);
  }
  if (found.empty()) report.not_applicable("there is no backend to compute with: 'cpu' is missing");
  return found;
}

void layer_description(const Registry& registry, const std::string& name, Report& report) {
  const LayerType& type = *registry.layers().find(name);
  check_description(type.name, type.text, type.plugin.empty() ? "the framework" : type.plugin, type.params, report);
}

// Without inputs, a layer only reads its table.
void layer_refusals(const Registry& registry, const std::string& name, Report& report) {
  const LayerType& type = *registry.layers().find(name);
  const Answer answer = [&](const Value& table) {
    Diagnostics errors;
    type.plan(table, {}, errors);
    return errors.text();
  };
  check_unknown_key(type.params, answer, report);
}

void layer_gradients(const Registry& registry, const std::string& name, Report& report) {
  const LayerType& type = *registry.layers().find(name);
  for (const char* backend : backends_of(registry, report)) {
    for (const LayerExample& example : type.examples) {
      for (const bool wide : {false, true}) {
        const auto network = testkit::network_from_text(testkit::example_network(type, example, wide), registry);
        const Made made = compile(registry, backend, *network, Precision::fp32);
        const testkit::GradientReport found = testkit::check_gradients(*network, *made.replica, batch_of(*network));
        expect_gradients(found, fmt::format("example '{}'{} on {}", example.table, wide ? ", wide" : "", backend),
                         "backward does not give the gradients of forward", report);
      }
    }
  }
}

void loss_description(const Registry& registry, const std::string& name, Report& report) {
  const LossType& type = *registry.losses().find(name);
  check_description(type.name, type.text, type.plugin, type.params, report);
}

Answer answer_of(const LossType& type) {
  return [&type](const Value& table) {
    Diagnostics errors;
    type.create(table, fmt::format("[{}]", type.name), errors);
    return errors.text();
  };
}

void loss_defaults(const Registry& registry, const std::string& name, Report& report) {
  const LossType& type = *registry.losses().find(name);
  check_defaults(type.params, type.defaults, answer_of(type), report);
}

void loss_refusals(const Registry& registry, const std::string& name, Report& report) {
  const LossType& type = *registry.losses().find(name);
  check_unknown_key(type.params, answer_of(type), report);
}

void loss_gradients(const Registry& registry, const std::string& name, Report& report) {
  const LossType& type = *registry.losses().find(name);
  for (const char* backend : backends_of(registry, report)) {
    for (const LossExample& example : type.examples) {
      for (const bool wide : {false, true}) {
        const auto network = network_for(registry, example.output, wide);
        const auto loss = testkit::example_loss(type, example);
        const LossData data(*network, *loss);
        const Made made = compile(registry, backend, *network, Precision::fp32, false, {loss});
        const testkit::GradientReport found = testkit::check_gradients(*network, *made.replica, data.batch, {.loss = loss});
        expect_gradients(found, fmt::format("example '{}'{} on {}", example.table, wide ? ", wide" : "", backend),
                         "the gradient is not that of the loss", report);
      }
    }
  }
}

// The gradient is divided by weight(), and the reported loss by the kernels' sum.
void loss_weight(const Registry& registry, const std::string& name, Report& report) {
  const LossType& type = *registry.losses().find(name);
  for (const char* backend : backends_of(registry, report)) {
    for (const LossExample& example : type.examples) {
      const auto network = network_for(registry, example.output, false);
      const auto loss = testkit::example_loss(type, example);
      const LossData data(*network, *loss);
      const Made made = compile(registry, backend, *network, Precision::fp32, false, {loss});
      StepSums sums;
      made.replica->infer(data.batch, 0, kBatch, {}, loss, sums)->wait();
      made.replica->finish();
      const Shape& output = network->output();
      const double divisor = loss->weight(*data.batch, {0, kBatch}, output.elements() / output[0]);
      const std::string where = fmt::format("example '{}' on {}", example.table, backend);
      report.expect(
          std::abs(sums.weight() - divisor) <= 1e-6 * divisor,
          fmt::format("{}: its kernels count a weight of {}, and weight() says {}: the gradient, which weight() divides, "
                      "is not that of the loss that is reported",
                      where, sums.weight(), divisor));
      report.expect(std::isfinite(sums.loss()) && sums.loss() != 0,
                    fmt::format("{}: the loss of random outputs is {}", where, sums.loss()));
    }
  }
}

constexpr Check kComputeChecks[] = {{"layer", "description", layer_description}, {"layer", "refusals", layer_refusals},
                                    {"layer", "gradients", layer_gradients},     {"loss", "description", loss_description},
                                    {"loss", "defaults", loss_defaults},         {"loss", "refusals", loss_refusals},
                                    {"loss", "gradients", loss_gradients},       {"loss", "weight", loss_weight}};

}  // namespace

std::span<const Check> compute_checks() { return kComputeChecks; }

}  // namespace millrace::conformance
