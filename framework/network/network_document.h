// A network file's parts, with keys checked and nothing evaluated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"
#include "toml/variables.h"

namespace millrace {

struct BlockDefinition {
  std::string name;
  Value defaults;  // a table
  const Array* layers = nullptr;
  Position at;
  std::vector<Reference> references;  // from ${...} in its layers and defaults
};

// Points into the Value from which it was made.
struct NetworkDocument {
  Value defaults;  // a table
  const Value* input = nullptr;
  const Array* layers = nullptr;
  Position layers_at;
  std::map<std::string, BlockDefinition, std::less<>> blocks;
  std::vector<Reference> references;  // from ${...} outside the blocks
};

// Adds mistakes to `errors`; the result is complete only if there are none.
NetworkDocument read_network_document(const Value& document, const std::string& name, Diagnostics& errors);

}  // namespace millrace
