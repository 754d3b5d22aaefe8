// How kernels traverse maps: in runs, which are neighbouring pixels of one block of 16 channels of one sample; a tile is the runs
// of all blocks over the same pixels. Tiles are distributed over the team. Sums use a fixed number of slices of tiles, so that
// they do not depend on the team's size.
#pragma once

#include "kernels/isa/lanes.h"

namespace millrace::cpu::MILLRACE_ISA {

struct Run {
  std::int64_t n, block, pixel, count;
};

struct Tiling {
  std::int64_t pixels, tile, tiles_per_plane, items, blocks;
  bool threads;  // true if there is enough work for a team

  // Tiles are a multiple of `unit` pixels: a row for pooling. Small enough for float sums over a run to stay exact, and in
  // channels last for a tile to stay in the first-level cache between blocks; a pixel may stand for `area` pixels of a larger
  // map.
  explicit Tiling(const Map& map, std::int64_t unit = 1, std::int64_t area = 1) : pixels(map.pixels()), blocks(map.blocks()) {
    const std::int64_t fitting = 8192 / (map.stride_pixel * static_cast<std::int64_t>(map.type == DataType::bf16 ? 2 : 4) * area);
    const std::int64_t aim = map.padded ? 256 : fitting > 64 ? 64 : fitting < 16 ? 16 : fitting;
    tile = unit >= aim ? unit : aim / unit * unit;
    if (tile > pixels) tile = pixels;
    tiles_per_plane = (pixels + tile - 1) / tile;
    items = map.n * tiles_per_plane;
    threads = map.n * blocks * pixels > 2048;
  }
  template <class Body>
  MILLRACE_INLINE void runs_of(std::int64_t item, const Body& body) const {
    const std::int64_t n = item / tiles_per_plane, first = item % tiles_per_plane * tile;
    const std::int64_t count = tile < pixels - first ? tile : pixels - first;
    for (std::int64_t block = 0; block < blocks; ++block) body(Run{n, block, first, count});
  }
  std::int64_t pixels_of(std::int64_t item) const {
    const std::int64_t first = item % tiles_per_plane * tile;
    return tile < pixels - first ? tile : pixels - first;
  }
};

template <class Body>
void for_each_run(const Tiling& tiling, const Body& body) {
#pragma omp parallel for schedule(static) if (tiling.threads)
  for (std::int64_t item = 0; item < tiling.items; ++item) tiling.runs_of(item, body);
}

// Slices of neighbouring tiles: body(slice, first item, end item).
constexpr std::int64_t kMaxSlices = 64;
inline std::int64_t slices_of(const Tiling& tiling) { return tiling.items < kMaxSlices ? tiling.items : kMaxSlices; }
template <class Body>
void for_each_slice(const Tiling& tiling, const Body& body) {
  const std::int64_t slices = slices_of(tiling);
#pragma omp parallel for schedule(static) if (tiling.threads)
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    body(slice, tiling.items * slice / slices, tiling.items * (slice + 1) / slices);
  }
}

// For kernels that do not distinguish channels: gapless maps of one layout, treated as one long run of sixteen channels. Returns
// false for other maps.
template <class... Maps>
bool flatten(Map& first, Maps&... others) {
  [[maybe_unused]] const auto alike = [&](const Map& map) {
    return map.stride_n == first.stride_n && map.stride_block == first.stride_block && map.stride_pixel == first.stride_pixel;
  };
  const auto flat = [](const Map& map) {
    return Map::blocked(map.data, map.type, 1, Map::kLanes, 1, map.n * map.stride_n / Map::kLanes);
  };
  const std::int64_t memory = first.padded ? first.blocks() * Map::kLanes : first.channels;
  const bool dense = first.stride_n == memory * first.pixels() &&
                     (first.padded || (first.stride_pixel == memory && first.stride_block == Map::kLanes));
  if (!(dense && first.n * first.stride_n % Map::kLanes == 0 && (alike(others) && ... && true))) return false;
  ((others = flat(others)), ...);
  first = flat(first);
  return true;
}

template <class T>
MILLRACE_INLINE T* at(const Map& map, std::int64_t n, std::int64_t block, std::int64_t pixel) {
  return static_cast<T*>(map.data) + n * map.stride_n + block * map.stride_block + pixel * map.stride_pixel;
}
template <class T>
MILLRACE_INLINE T* at(const Map& map, const Run& run) {
  return at<T>(map, run.n, run.block, run.pixel);
}

// The pixels of a run in one map. Loops keep it, and everything else they need, in a local variable: a vector store may alias
// anything behind a reference, so the compiler would reload it for every pixel.
template <class T>
struct Cursor {
  T* first;
  std::int64_t stride;
  MILLRACE_INLINE Cursor(const Map& map, const Run& run) : first(at<T>(map, run)), stride(map.stride_pixel) {}
  MILLRACE_INLINE T* operator[](std::int64_t i) const { return first + i * stride; }
};

inline int lanes_of(const Map& map, std::int64_t block) {
  const std::int64_t left = map.channels - block * Map::kLanes;
  return static_cast<int>(left < Map::kLanes ? left : Map::kLanes);
}
// A value by channel; null reads as `otherwise`.
MILLRACE_INLINE v16 channel_values(const float* values, std::int64_t block, int lanes, float otherwise) {
  return values == nullptr ? splat(otherwise) : load_some(values + block * Map::kLanes, lanes);
}

// Calls body with Whole or Part for the block, as written to `map`.
template <class Body>
MILLRACE_INLINE void with_lanes(const Map& map, std::int64_t block, const Body& body) {
  const int lanes = lanes_of(map, block);
  if (lanes == Map::kLanes) {
    body(Whole{});
  } else {
    body(Part{lanes, map.padded});
  }
}
template <class T>
struct Type {
  using type = T;
};
// Each instruction set gets only the types that pay there. bf16 needs AVX-512 in oneDNN too; on processors with bf16
// instructions, float32 uses the AVX-512 kernels without them (table.cpp).
template <class Body>
void with_type([[maybe_unused]] DataType type, const Body& body) {
#if defined(__AVX512BF16__)
  body(Type<std::uint16_t>{});
#elif defined(__AVX512F__)
  if (type == DataType::bf16) {
    body(Type<std::uint16_t>{});
  } else {
    body(Type<float>{});
  }
#else
  body(Type<float>{});
#endif
}
template <class Gelu, class Body>
void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::none: return body(Type<Identity>{});
    case Activation::relu: return body(Type<Relu>{});
    case Activation::gelu: return body(Type<Gelu>{});
  }
}

// to += from, sixteen doubles.
MILLRACE_INLINE void accumulate(double* to, v16 from) {
  union {
    v16 whole;
    v8 half[2];
  } parts{from};
  for (int i = 0; i < 2; ++i) {
    d8& half = *reinterpret_cast<d8*>(to + 8 * i);
    half += __builtin_convertvector(parts.half[i], d8);
  }
}

// Sums over (n, pixels) by channel: body(run, sums) fills K vectors for each run; out[k] receives `channels` values.
template <int K, class Body>
void sum_runs(const Map& map, float* const (&out)[K], const Body& body) {
  const Tiling tiling(map);
  const std::int64_t padded = tiling.blocks * Map::kLanes, slices = slices_of(tiling);
  double* const partial = scratch(static_cast<std::size_t>(slices * K * padded));
  for_each_slice(tiling, [&](std::int64_t slice, std::int64_t begin, std::int64_t end) {
    double* const mine = partial + slice * K * padded;
    for (std::int64_t i = 0; i < K * padded; ++i) mine[i] = 0;
    for (std::int64_t item = begin; item < end; ++item) {
      tiling.runs_of(item, [&](const Run& run) {
        v16 sums[K] = {};
        body(run, sums);
        for (int k = 0; k < K; ++k) accumulate(mine + k * padded + run.block * Map::kLanes, sums[k]);
      });
    }
  });
  for (std::int64_t slice = 1; slice < slices; ++slice) {
    for (std::int64_t i = 0; i < K * padded; ++i) partial[i] += partial[slice * K * padded + i];
  }
  for (int k = 0; k < K; ++k) {
    for (std::int64_t c = 0; c < map.channels; ++c) out[k][c] = slices == 0 ? 0.0F : static_cast<float>(partial[k * padded + c]);
  }
}

}  // namespace millrace::cpu::MILLRACE_ISA
