#include "map_values.h"

#include <cstring>

namespace millrace::cpu {
namespace {

template <class T>
void read_map(const Map& map, float* to) {
  const auto* const data = static_cast<const T*>(map.data);
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < map.n; ++n) {
    float* row = to + n * map.channels * map.pixels();
    for (std::int64_t c = 0; c < map.channels; ++c) {
      const T* from = data + n * map.stride_n + c / Map::kLanes * map.stride_block + c % Map::kLanes;
      for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel, from += map.stride_pixel) *row++ = to_float(*from);
    }
  }
}

template <class T>
void add_view(const Map& from, const View& view, const Map& to) {
  const auto* const data = static_cast<const T*>(from.data);
  auto* const sums = static_cast<float*>(to.data);
  const auto weight = static_cast<float>(view.weight);
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < from.n * from.height; ++row) {
    const std::int64_t n = row / from.height, first = row % from.height * from.width;
    for (std::int64_t x = 0; x < from.width; ++x) {
      const std::int64_t seen = view.flip_x ? from.width - 1 - x : x;
      const T* const values = data + n * from.stride_n + (first + seen) * from.stride_pixel;
      float* const sum = sums + n * to.stride_n + (first + x) * to.stride_pixel;
      for (std::int64_t c = 0; c < from.channels; ++c)
        sum[c] += weight * to_float(values[c / Map::kLanes * from.stride_block + c % Map::kLanes]);
    }
  }
}

}  // namespace

void read_map(const Map& map, float* to) { map.type == DataType::bf16 ? read_map<Bf16>(map, to) : read_map<float>(map, to); }

void add_view(const Map& from, const View& view, const Map& to) {
  from.type == DataType::bf16 ? add_view<Bf16>(from, view, to) : add_view<float>(from, view, to);
}

void zero(const Map& map) { std::memset(map.data, 0, static_cast<std::size_t>(map.n * map.stride_n) * size_of(map.type)); }

std::vector<float> values_of(const Map& map) {
  std::vector<float> values(static_cast<std::size_t>(map.elements()));
  read_map(map, values.data());
  return values;
}

float& element_of(const Map& vector, std::int64_t n, std::int64_t channel) {
  return static_cast<float*>(
      vector.data)[n * vector.stride_n + channel / Map::kLanes * vector.stride_block + channel % Map::kLanes];
}

}  // namespace millrace::cpu
