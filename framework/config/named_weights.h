// The weights named by a pipeline file.
#pragma once

#include <array>
#include <string>

#include "millrace/detail/value.h"

namespace millrace {

// The keys of [network] for a run's initial weights.
inline constexpr std::array kKeysOfWeights = {"weights", "sha256", "new", "rename"};

// [network] `weights` of a whole file, which may be a table: a file or a URL. "": none.
inline std::string named_weights(const Value& file) {
  const Value* const network = file.find("network");
  const Value* said = network != nullptr ? network->find("weights") : nullptr;
  if (said != nullptr && said->kind() == Value::Kind::table) said = said->find("file");
  return said != nullptr && said->kind() == Value::Kind::text ? said->text() : std::string();
}

}  // namespace millrace
