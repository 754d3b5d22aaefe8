// JSON with ordered members. The parts that sources use are compiled once, in json.cpp, since that takes seconds.
#pragma once

#include <nlohmann/json.hpp>

namespace millrace {
using Json = nlohmann::ordered_json;
}  // namespace millrace

extern template class nlohmann::basic_json<nlohmann::ordered_map>;
