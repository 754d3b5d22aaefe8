// A JSON schema of pipeline files, for editors that complete and check TOML while it is written (Taplo, Even Better TOML).
#pragma once

#include <string>

#include "millrace/plugin.h"

namespace millrace {

// Everything that the registry knows: [run], [network], graphs, and each stage's parameters with type, range, default and text.
// Wherever a value may stand, a text with a reference (${...}) may stand too.
std::string json_schema(const Registry& registry);

}  // namespace millrace
