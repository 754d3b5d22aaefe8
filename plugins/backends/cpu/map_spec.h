// The shape, type and layout of an activation, before it has memory.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/map.h"
#include "millrace/backend/memory_planner.h"
#include "millrace/backend/network.h"
#include "millrace/kernels/portable_element.h"

namespace millrace::cpu {

// Layout of channels in memory; see kernels/map.h. One layout is chosen for a whole network: oneDNN's preferred one for
// convolutions on this processor and in this precision.
enum class Layout { blocked, channels_last };

struct MapSpec {
  std::int64_t n = 0, channels = 0, height = 1, width = 1;
  DataType type = DataType::f32;
  Layout layout = Layout::channels_last;

  // `shape`: one sample's, (C, H, W), or (C), whose layout is always channels_last.
  static MapSpec of(const Shape& shape, std::int64_t batch, DataType type, Layout layout);

  std::size_t bytes() const;
  std::int64_t features() const { return channels * height * width; }
  Map map(void* data) const;
  dnnl::memory::desc desc() const;       // (N, C, H, W)
  dnnl::memory::desc rows_desc() const;  // (N, C). REQUIRES: height = width = 1 and channels_last
};

// The map as portable kernels see it.
TensorView view_of(const Map& map);
inline TensorView view_of(const MapSpec& spec, void* data) { return view_of(spec.map(data)); }

dnnl::memory::data_type to_dnnl(DataType type);

using Planner = MemoryPlanner<MapSpec>;
using Value = Planner::Value;

inline constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace millrace::cpu
