// A network's memory on a host, as planned by backend "cpu".
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/text_table.h"
#include "inspect.h"
#include "millrace/backend/backend.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/optimizer.h"
#include "prepare/devices.h"
#include "util/memory_limit.h"

namespace millrace {
namespace {

std::shared_ptr<const Loss> usual_loss(const Network& network, const Registry& registry) {
  const LossType* type = registry.losses().find(network.output().rank() == 1 ? "cross_entropy" : "pixel_cross_entropy");
  Diagnostics errors;
  return type ? type->create(Value(), "loss", errors) : nullptr;
}

std::shared_ptr<const Optimizer> usual_optimizer(const Registry& registry) {
  const OptimizerType* type = registry.optimizers().find("sgd");
  Diagnostics errors;
  return type ? type->create(Value(Table{{"momentum", {}, Value(0.9)}}), "type", errors) : nullptr;
}

// Layers without readers, except the last: outputs for auxiliary losses.
std::vector<LayerPort> auxiliary_outputs(const Network& network) {
  std::vector<bool> read(network.layers.size(), false);
  for (const Layer& layer : network.layers) {
    for (const LayerPort input : layer.inputs) {
      if (input.layer != Network::kInput) read[static_cast<std::size_t>(input.layer)] = true;
    }
  }
  std::vector<LayerPort> outputs;
  for (std::size_t i = 0; i + 1 < read.size(); ++i) {
    if (!read[i]) outputs.emplace_back(static_cast<int>(i));
  }
  return outputs;
}

CompileOptions options_of(const Network& network, const Registry& registry, std::uint32_t batch, bool trains) {
  CompileOptions options;
  (trains ? options.train_batch : options.infer_batch) = batch;
  const std::shared_ptr<const Loss> loss = usual_loss(network, registry);
  if (loss) options.request.losses.emplace_back(loss);
  if (!trains) return options;
  if (loss) {
    for (const LayerPort output : auxiliary_outputs(network)) options.request.losses.emplace_back(loss, output);
  }
  if (const auto optimizer = usual_optimizer(registry)) options.request.update.optimizers.push_back(optimizer);
  return options;
}

std::string text_of(const MemoryPlan& plan, const std::string& what) {
  const auto item = std::ranges::find(plan.items, what, &MemoryPlan::Item::what);
  return item == plan.items.end() || item->bytes == 0 ? "" : bytes_text(item->bytes);
}

}  // namespace

std::string describe_memory(const Network& network, const Registry& registry, std::uint32_t batch) {
  const BackendType* type = registry.backends().find(kHostBackend);
  if (type == nullptr) return fmt::format("memory: not planned, backend '{}' is missing\n", kHostBackend);
  try {
    const std::unique_ptr<Device> device = type->create()->open(0, {});
    const auto planned = [&](bool trains) {
      return device->compile(network, options_of(network, registry, batch, trains))->memory_plan();
    };
    const MemoryPlan training = planned(true), inference = planned(false);
    TextTable table({"", ">a training step", ">inference"});
    for (const MemoryPlan::Item& item : training.items) {
      table.row({item.what, text_of(training, item.what), text_of(inference, item.what)});
    }
    table.row({"in all", bytes_text(training.total()), bytes_text(inference.total())});
    return fmt::format("\nmemory on backend {}, in float32, for a batch of {}; trained by sgd with momentum\n", kHostBackend,
                       batch) +
           table.text();
  } catch (const Error& error) {
    return fmt::format("memory: not planned by backend '{}': {}\n", kHostBackend, error.message());
  }
}

}  // namespace millrace
