// Divides a global batch among replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

struct Share {
  std::uint32_t begin = 0;
  std::uint32_t count = 0;
};

// Distributes `count` whole samples in proportion to `load`, in replica order. An empty `load` means equal shares; a load of 0
// gets nothing. A larger batch never gives a replica fewer samples, so that the share of the largest batch bounds all others
// (d'Hondt's method; rounding by largest remainders would not promise that). Ties go to the lower replica.
// REQUIRES: replicas > 0; load is empty or has one entry >= 0 for each replica and not only zeros.
std::vector<Share> split(std::uint32_t count, std::size_t replicas, std::span<const double> load = {});

}  // namespace millrace
