// Plans a compiled network's memory and lifetimes, in this backend's layouts.
#pragma once

#include "map_spec.h"
#include "millrace/backend/memory_planner.h"

namespace millrace::cpu {

using Planner = MemoryPlanner<MapSpec>;
using Value = Planner::Value;

inline constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register

constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace millrace::cpu
