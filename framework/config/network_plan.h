// The table [network]: the network, and its initial weights.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "network/transfer.h"

namespace millrace {

struct LoadOptions;

struct NetworkPlan {
  NetworkParams params;                    // `use` and `weights`: files relative to the working folder; `weights` may be a URL
  std::shared_ptr<const Network> network;  // with `freeze` applied; null after a mistake
};

// The file that `use` names; empty if there is none.
std::optional<std::string> network_file(const Value& use, const std::string& pipeline_file);

// To append to "there is no file": valid forms of weights, for names such as "imagenet". "" for other names.
std::string weights_hint(const std::string& name);

// `use` names a network of the zoo (see shipped.h) or a file. Adds mistakes to `errors`. Replaces files in `table` by their
// actual paths: relative to the file that names them, or else to the working folder. `pipeline_file`: files from --set are
// relative to its folder.
NetworkPlan plan_network(Value& table, const std::string& pipeline_file, const Registry& registry, const LoadOptions& options,
                         Diagnostics& errors);

}  // namespace millrace
