// JSON with its members in order. What sources use of it is compiled once, in json.cpp: it takes seconds.
#pragma once

#include <nlohmann/json.hpp>

namespace millrace {
using Json = nlohmann::ordered_json;
}  // namespace millrace

extern template class nlohmann::basic_json<nlohmann::ordered_map>;
