// Layout of activations and gradients in device memory: channels last, (n, height, width, pitch), with zeros after the last
// channel of each pixel.
#pragma once

#include "kernels/pool.h"
#include "kernels/portable.h"
#include "millrace/backend/memory_planner.h"
#include "millrace/backend/network.h"
#include "millrace/kernels/portable_element.h"

namespace millrace::cuda {

struct MapSpec {
  std::int64_t n = 0, channels = 0, height = 1, width = 1;
  DataType type = DataType::f32;

  // `shape`: one sample's, (C, H, W) or (C).
  static MapSpec of(const Shape& shape, std::int64_t samples, DataType type) {
    const bool map = shape.rank() == 3;
    return {samples, shape[0], map ? shape[1] : 1, map ? shape[2] : 1, type};
  }

  std::int64_t rows() const { return n * height * width; }
  std::int64_t pitch() const { return pitch_of(channels); }
  std::int64_t row_packs() const { return pitch() / kPack; }
  std::int64_t packs() const { return rows() * row_packs(); }
  std::size_t bytes() const { return static_cast<std::size_t>(rows() * pitch()) * size_of(type); }
};

// The map as portable kernels see it.
inline TensorView view_of(const MapSpec& spec, void* data) {
  return TensorView{.data = data,
                    .stride_n = spec.height * spec.width * spec.pitch(),
                    .stride_pixel = spec.pitch(),
                    .padded = spec.pitch(),
                    .type = spec.type};
}

// Pooling as kernel arguments.
inline PoolWindow window_of(const PoolAttributes& pool) {
  const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
  return {narrow(pool.kernel.height), narrow(pool.kernel.width), narrow(pool.stride.height), narrow(pool.stride.width),
          narrow(pool.padding.top),   narrow(pool.padding.left), pool.count_padding};
}

inline PoolExtents extents_of(const MapSpec& from, const MapSpec& to) {
  const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
  return {from.n, narrow(from.height), narrow(from.width), narrow(to.height), narrow(to.width), narrow(from.row_packs())};
}

inline constexpr std::size_t kAlignment = 256;  // cudaMalloc's guarantee, and more than any library requires

using Planner = MemoryPlanner<MapSpec>;
using Value = Planner::Value;

// Calls f(T{}) with the element type of `type`.
template <class F>
void with_type(DataType type, const F& f) {
  if (type == DataType::bf16)
    f(Bf16{});
  else
    f(float{});
}

}  // namespace millrace::cuda
