// A JSON schema of pipeline files, for editors that complete and check TOML (Taplo, Even Better TOML).
#pragma once

#include <string>

#include "millrace/plugin.h"

namespace millrace {

// Covers the whole registry: [run], [network], graphs, and each stage's parameters with type, range, default and text. In place
// of any value, a text with a reference (${...}) is accepted.
std::string json_schema(const Registry& registry);

}  // namespace millrace
