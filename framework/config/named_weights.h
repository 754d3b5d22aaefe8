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
  const Value* weights = network != nullptr ? network->find("weights") : nullptr;
  if (weights != nullptr && weights->kind() == Value::Kind::table) weights = weights->find("file");
  return weights != nullptr && weights->kind() == Value::Kind::text ? weights->text() : std::string();
}

}  // namespace millrace
