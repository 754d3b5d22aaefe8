#include "kernels/rearrange.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/map_elements.h"

namespace millrace::cpu {
namespace {

// Calls body(n, pixel, phase's n, phase's pixel) for all pixels of one phase; the map's pixel is -1 if outside the map.
template <class Body>
void each_of_phase(const Map& map, std::int64_t rows, std::int64_t columns, const Map& phases, std::int64_t phase,
                   const Body& body) {
  const std::int64_t n = phase / (rows * columns), top = phase / columns % rows, left = phase % columns;
  for (std::int64_t i = 0; i < phases.pixels(); ++i) {
    const std::int64_t y = top + i / phases.width * rows, x = left + i % phases.width * columns;
    body(n, y < map.height && x < map.width ? y * map.width + x : -1, phase, i);
  }
}
// The channels of a pixel, including padding if both have it.
void copy_pixel(const Map& from, std::int64_t from_n, std::int64_t from_pixel, const Map& to, std::int64_t to_n,
                std::int64_t to_pixel) {
  for (std::int64_t c = 0; c < to.channels; c += Map::kLanes) {
    const std::int64_t lanes = to.padded && from.padded ? Map::kLanes : std::min(Map::kLanes, to.channels - c);
    std::memcpy(address(to, offset(to, to_n, c, to_pixel)), address(from, offset(from, from_n, c, from_pixel)),
                static_cast<std::size_t>(lanes) * size_of(to.type));
  }
}
void clear_pixel(const Map& to, std::int64_t n, std::int64_t pixel) {
  for (std::int64_t c = 0; c < to.channels; c += Map::kLanes) {
    const std::int64_t lanes = to.padded ? Map::kLanes : std::min(Map::kLanes, to.channels - c);
    std::memset(address(to, offset(to, n, c, pixel)), 0, static_cast<std::size_t>(lanes) * size_of(to.type));
  }
}

// Copies `count` pixels of a row.
void copy_pixels(const Map& from, std::int64_t from_n, std::int64_t from_pixel, const Map& to, std::int64_t to_n,
                 std::int64_t to_pixel, std::int64_t count) {
  if (from.stride_pixel == from.channels && to.stride_pixel == to.channels) {  // channels last: contiguous
    std::memcpy(address(to, offset(to, to_n, 0, to_pixel)), address(from, offset(from, from_n, 0, from_pixel)),
                static_cast<std::size_t>(count * to.channels) * size_of(to.type));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) copy_pixel(from, from_n, from_pixel + i, to, to_n, to_pixel + i);
}

// Calls body(n, pixel, the wide map's n, its pixel) for the first pixel of each row of each image; n may be outside the map.
template <class Body>
void for_each_row_side_by_side(const Map& map, const SideBySide& how, const Map& wide, const Body& body) {
#pragma omp parallel for schedule(static) if (map.elements() > 16384)
  for (std::int64_t row = 0; row < wide.n * wide.height; ++row) {
    const std::int64_t wide_n = row / wide.height, y = row % wide.height;
    for (std::int64_t i = 0; i < how.images; ++i) {
      body(wide_n * how.images + i, y * map.width, wide_n, y * wide.width + i * how.period);
    }
  }
}

// f(T{}): T has the element's size.
template <class F>
void with_elements(DataType type, const F& f) {
  type == DataType::bf16 ? f(std::uint16_t{}) : f(float{});
}
// Copies the same `channels`, at most 16, of every pixel.
template <class T>
void copy_run(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t pixels, std::int64_t channels) {
  const auto copy_all = [&](auto count) {  // std::memcpy of a constant size is a few instructions
    for (std::int64_t i = 0; i < pixels; ++i, from += from_step, to += to_step) std::memcpy(to, from, count * sizeof(T));
  };
  if (channels == 16) return copy_all(std::integral_constant<std::size_t, 16>());
  if (channels == 8) return copy_all(std::integral_constant<std::size_t, 8>());
  for (std::int64_t i = 0; i < pixels; ++i, from += from_step, to += to_step) {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c];
  }
}

void convert_run(const Map& from, std::int64_t from_at, const Map& to, std::int64_t to_at, std::int64_t channels) {
  for (std::int64_t i = 0; i < to.pixels(); ++i, from_at += from.stride_pixel, to_at += to.stride_pixel) {
    for (std::int64_t c = 0; c < channels; ++c) put(to, to_at + c, get(from, from_at + c));
  }
}

// Calls body(place in the map, place among plain values) for the values of a sample, pixel by pixel.
template <class Body>
void for_each_place(const Map& map, std::int64_t n, const Body& body) {
  for (std::int64_t c = 0; c < map.channels; c += Map::kLanes) {
    const std::int64_t lanes = std::min(Map::kLanes, map.channels - c);
    const std::int64_t first = offset(map, n, c, 0), plain = (n * map.channels + c) * map.pixels();
    for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        body(first + pixel * map.stride_pixel + lane, plain + lane * map.pixels() + pixel);
      }
    }
  }
}

}  // namespace

void copy_channels(const Map& from, std::int64_t from_channel, const Map& to, std::int64_t to_channel, std::int64_t count) {
  for_each_sample(to, [&](std::int64_t n) {
    // Runs of channels that are neighbours in both maps.
    for (std::int64_t c = 0, run = 0; c < count; c += run) {
      const std::int64_t here = from_channel + c, there = to_channel + c;
      run = std::min({count - c, Map::kLanes - here % Map::kLanes, Map::kLanes - there % Map::kLanes});
      const std::int64_t from_at = offset(from, n, here, 0), to_at = offset(to, n, there, 0);
      if (from.type != to.type) {
        convert_run(from, from_at, to, to_at, run);
        continue;
      }
      with_elements(to.type, [&](auto element) {
        using T = decltype(element);
        copy_run(static_cast<const T*>(from.data) + from_at, from.stride_pixel, static_cast<T*>(to.data) + to_at, to.stride_pixel,
                 to.pixels(), run);
      });
    }
    if (to_channel + count == to.channels) zero_padding(to, n);
  });
}

void to_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to) {
  for_each_sample(to, [&](std::int64_t phase) {
    each_of_phase(from, rows, columns, to, phase, [&](auto n, auto pixel, auto to_n, auto to_pixel) {
      pixel < 0 ? clear_pixel(to, to_n, to_pixel) : copy_pixel(from, n, pixel, to, to_n, to_pixel);
    });
    zero_padding(to, phase);
  });
}

void from_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to) {
  for_each_sample(from, [&](std::int64_t phase) {
    each_of_phase(to, rows, columns, from, phase, [&](auto n, auto pixel, auto from_n, auto from_pixel) {
      if (pixel >= 0) copy_pixel(from, from_n, from_pixel, to, n, pixel);
    });
  });
  for_each_sample(to, [&](std::int64_t n) { zero_padding(to, n); });
}

void to_side_by_side(const Map& from, const SideBySide& how, const Map& to) {
  for_each_row_side_by_side(from, how, to, [&](auto n, auto pixel, auto to_n, auto to_pixel) {
    const std::int64_t column = to_pixel % to.width, copied = n < from.n ? from.width : 0;
    const bool is_last = column / how.period == how.images - 1;
    const std::int64_t end = to_pixel + (is_last ? to.width - column : how.period);
    if (copied > 0) copy_pixels(from, n, pixel, to, to_n, to_pixel, copied);
    for (std::int64_t at = to_pixel + copied; at < end; ++at) clear_pixel(to, to_n, at);
  });
  for_each_sample(to, [&](std::int64_t n) { zero_padding(to, n); });
}

void from_side_by_side(const Map& from, const SideBySide& how, const Map& to) {
  for_each_row_side_by_side(to, how, from, [&](auto n, auto pixel, auto from_n, auto from_pixel) {
    if (n < to.n) copy_pixels(from, from_n, from_pixel, to, n, pixel, to.width);
  });
  for_each_sample(to, [&](std::int64_t n) { zero_padding(to, n); });
}

void to_plain(const Map& from, void* to) {
  with_elements(from.type, [&](auto element) {
    using T = decltype(element);
    for_each_sample(from, [&](std::int64_t n) {
      for_each_place(from, n, [held = static_cast<const T*>(from.data), plain = static_cast<T*>(to)](auto at, auto plain_at) {
        plain[plain_at] = held[at];
      });
    });
  });
}

void from_plain(const void* from, const Map& to) {
  with_elements(to.type, [&](auto element) {
    using T = decltype(element);
    for_each_sample(to, [&](std::int64_t n) {
      for_each_place(to, n, [plain = static_cast<const T*>(from), held = static_cast<T*>(to.data)](auto at, auto plain_at) {
        held[at] = plain[plain_at];
      });
      zero_padding(to, n);
    });
  });
}

void read_map(const Map& from, float* to) {
  for_each_sample(
      from, [&](std::int64_t n) { for_each_place(from, n, [&](auto at, auto plain_at) { to[plain_at] = get(from, at); }); });
}

std::vector<float> values_of(const Map& map) {
  std::vector<float> values(static_cast<std::size_t>(map.elements()));
  read_map(map, values.data());
  return values;
}

void add_view(const Map& from, float weight, bool mirrored, const Map& to) {
  auto* const sums = static_cast<float*>(to.data);
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < from.n * from.height; ++row) {
    const std::int64_t n = row / from.height, first = row % from.height * from.width;
    for (std::int64_t x = 0; x < from.width; ++x) {
      const std::int64_t seen = first + (mirrored ? from.width - 1 - x : x);
      float* const sum = sums + n * to.stride_n + (first + x) * to.stride_pixel;
      for (std::int64_t c = 0; c < from.channels; ++c) sum[c] += weight * get(from, offset(from, n, c, seen));
    }
  }
}

void zero(const Map& map) { std::memset(map.data, 0, static_cast<std::size_t>(map.n * map.stride_n) * size_of(map.type)); }

}  // namespace millrace::cpu
