#include "config/auxiliary_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/backend/fusion.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "plugin/loss_params.h"

namespace millrace {
namespace {

// All outputs named by stages of these graphs.
std::vector<LayerPort> named_outputs(const Network& network, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  std::vector<LayerPort> outputs;
  for (const GraphPlan& graph : graphs) {
    for (const StagePlan& stage : graph.stages) {
      if (!stage.type || !stage.type->takes_loss) continue;
      for (const AuxiliaryEntry& entry : auxiliary_entries(stage.table)) {
        if (!entry.output || entry.output->kind() != Value::Kind::text) continue;
        try {
          const auto output = find_loss_output(network, entry.output->text());
          if (output) outputs.push_back(*output);
        } catch (const Error& error) {
          errors.add(entry.output->at(), fmt::format("[{}.{}]: 'auxiliary': {}", graph.name, stage.name, error.message()));
        }
      }
    }
  }
  return outputs;
}

}  // namespace

std::shared_ptr<const Network> plan_auxiliary(std::shared_ptr<const Network> network, const std::vector<GraphPlan>& graphs,
                                              Diagnostics& errors) {
  const std::vector<bool> wanted = layers_for(*network, named_outputs(*network, graphs, errors));
  if (std::ranges::count(wanted, false) == 0) return network;
  auto marked = std::make_shared<Network>(*network);
  for (std::size_t layer = 0; layer < wanted.size(); ++layer) {
    if (wanted[layer]) continue;
    for (const int parameter : marked->layers[layer].parameters) {
      Parameter& unused = marked->parameters[static_cast<std::size_t>(parameter)];
      unused.unused = true;
      unused.trainable = false;
    }
  }
  return marked;
}

}  // namespace millrace
