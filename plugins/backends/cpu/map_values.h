// Conversions of map values for other parts of a replica.
#pragma once

#include <cstdint>
#include <vector>

#include "map_spec.h"
#include "millrace/backend/backend.h"

namespace millrace::cpu {

// To (samples, C) or (samples, C, H, W), as in the network's shapes.
void read_map(const Map& map, float* to);
std::vector<float> values_of(const Map& map);

// to += view.weight * from; rows of a mirrored view are read in reverse. `to` is float32 with channels last.
void add_view(const Map& from, const View& view, const Map& to);

void zero(const Map& map);

// The element of a vector, float32.
float& element_of(const Map& vector, std::int64_t n, std::int64_t channel);

}  // namespace millrace::cpu
