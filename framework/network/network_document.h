// A network file's parts, their keys checked and nothing evaluated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"
#include "network/variables.h"

namespace millrace {

struct BlockDefinition {
  std::string name;
  Value defaults;  // a table
  const Array* layers = nullptr;
  Position at;
  std::vector<Reference> references;  // of ${...} in its layers and defaults
};

// Points into the Value that it was made from.
struct NetworkDocument {
  Value defaults;  // a table
  const Value* input = nullptr;
  const Array* layers = nullptr;
  Position layers_at;
  std::map<std::string, BlockDefinition, std::less<>> blocks;
  std::vector<Reference> references;  // of ${...} in it, outside the blocks
};

// Mistakes are added to `errors`; the result is complete only when there are none.
NetworkDocument read_network_document(const Value& document, const std::string& name, Diagnostics& errors);

}  // namespace millrace
