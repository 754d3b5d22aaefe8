// The table [network]: the network, and its initial weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/plan.h"
#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "network/transfer.h"

namespace millrace {

struct NetworkPlan {
  NetworkParams params;                    // `use` and `weights`: files relative to the working folder; `weights` may be a URL
  std::shared_ptr<const Network> network;  // with `freeze` applied; null after a mistake
};

// The file that `use` names; empty if there is none.
std::optional<std::string> network_file(const Value& use, const std::string& pipeline_file);

// To append to "does not exist": valid forms of weights, for names such as "imagenet". "" for other names.
std::string weights_hint(const std::string& name);

// `use` names a network of the zoo (see shipped.h) or a file. Adds mistakes to `errors`. Replaces files in `table` by their
// actual paths: relative to the file that names them, or else to the working folder. `pipeline_file`: files from --set are
// relative to its folder.
NetworkPlan plan_network(Value& table, const std::string& pipeline_file, const Registry& registry, const LoadOptions& options,
                         Diagnostics& errors);

// Outputs at which losses are measured in addition to the network's result come from the stages' `auxiliary`.
// The network with the parameters of layers that no loss depends on marked as unused. Names of invalid outputs are reported in
// `errors`.
std::shared_ptr<const Network> plan_auxiliary(std::shared_ptr<const Network> network, const std::vector<GraphPlan>& graphs,
                                              Diagnostics& errors);

// The number of outputs that a network needs for the data of the graph's source: its columns of numbers, or else its classes, for
// which it lists its samples. 0: it has neither, or cannot be opened, which is reported in detail when the run lists its data.
std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry);

}  // namespace millrace
