// Which weights a pipeline's file names.
#pragma once

#include <string>

#include "millrace/detail/value.h"

namespace millrace {

// [network] `weights` of a whole file, which may be a table: a file or a URL. "": none.
inline std::string named_weights(const Value& file) {
  const Value* const network = file.find("network");
  const Value* said = network != nullptr ? network->find("weights") : nullptr;
  if (said != nullptr && said->kind() == Value::Kind::table) said = said->find("file");
  return said != nullptr && said->kind() == Value::Kind::text ? said->text() : std::string();
}

}  // namespace millrace
