// The table [network]: which network, and which weights it starts from.
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
  NetworkParams params;                    // `use` and `weights`: files, as seen from the working folder; `weights` may be a URL
  std::shared_ptr<const Network> network;  // with `freeze` applied; null after a mistake
};

// The file that `use` names; nothing when there is none.
std::optional<std::string> network_file(const Value& use, const std::string& pipeline_file);

// After "there is no file": what weights may be, for who gives a name such as "imagenet". "": it is no such name.
std::string weights_hint(const std::string& name);

// `use` names a network of the zoo (see shipped.h) or a file. Mistakes are added to `errors`. Files in `table` are replaced by
// where they were found: beside the file that names them, or else in the working folder. `pipeline_file`: whose folder counts for
// what --set has named.
NetworkPlan plan_network(Value& table, const std::string& pipeline_file, const Registry& registry, const LoadOptions& options,
                         Diagnostics& errors);

}  // namespace millrace
