#include "kernels/rearrange.h"

#include <algorithm>
#include <cstring>

#include "millrace/sample.h"

namespace millrace::cpu {
namespace {

std::int64_t offset(const Map& map, std::int64_t n, std::int64_t channel, std::int64_t pixel) {
  return n * map.stride_n + channel / Map::kLanes * map.stride_block + pixel * map.stride_pixel + channel % Map::kLanes;
}
float get(const Map& map, std::int64_t at) {
  return map.type == DataType::bf16 ? from_bf16(static_cast<const std::uint16_t*>(map.data)[at])
                                    : static_cast<const float*>(map.data)[at];
}
void put(const Map& map, std::int64_t at, float value) {
  if (map.type == DataType::bf16) {
    static_cast<std::uint16_t*>(map.data)[at] = to_bf16(value);
  } else {
    static_cast<float*>(map.data)[at] = value;
  }
}
void* address(const Map& map, std::int64_t at) {
  return static_cast<char*>(map.data) + static_cast<std::size_t>(at) * size_of(map.type);
}

// body(n) for every sample, shared out over the team.
template <class Body>
void for_each_sample(const Map& map, const Body& body) {
#pragma omp parallel for schedule(static) if (map.elements() > 16384)
  for (std::int64_t n = 0; n < map.n; ++n) body(n);
}

void zero_padding(const Map& map, std::int64_t n) {
  if (!map.padded || map.channels % Map::kLanes == 0) return;
  for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
    for (std::int64_t c = map.channels; c < map.blocks() * Map::kLanes; ++c) put(map, offset(map, n, c, pixel), 0);
  }
}

// body(n, pixel, phase's n, phase's pixel) for all pixels of one phase; the map's pixel is -1 where it is past the map.
template <class Body>
void each_of_phase(const Map& map, std::int64_t rows, std::int64_t columns, const Map& phases, std::int64_t phase,
                   const Body& body) {
  const std::int64_t n = phase / (rows * columns), top = phase / columns % rows, left = phase % columns;
  for (std::int64_t i = 0; i < phases.pixels(); ++i) {
    const std::int64_t y = top + i / phases.width * rows, x = left + i % phases.width * columns;
    body(n, y < map.height && x < map.width ? y * map.width + x : -1, phase, i);
  }
}
// The channels of a pixel, with their padding where both have it.
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

// `count` pixels of a row.
void copy_pixels(const Map& from, std::int64_t from_n, std::int64_t from_pixel, const Map& to, std::int64_t to_n,
                 std::int64_t to_pixel, std::int64_t count) {
  if (from.stride_pixel == from.channels && to.stride_pixel == to.channels) {  // channels last: they lie in one piece
    std::memcpy(address(to, offset(to, to_n, 0, to_pixel)), address(from, offset(from, from_n, 0, from_pixel)),
                static_cast<std::size_t>(count * to.channels) * size_of(to.type));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) copy_pixel(from, from_n, from_pixel + i, to, to_n, to_pixel + i);
}

// body(n, pixel, the wide map's n, its pixel) for the first pixel of each row of each image; n may be past the map.
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

// By a key, one sample at a time.
class DropoutOfSample {
 public:
  explicit DropoutOfSample(const DropoutKey& key)
      : key_(key),
        threshold_(static_cast<std::uint64_t>(key.probability * 4294967296.0)),
        factor_(static_cast<float>(key.probability < 1 ? 1 / (1 - key.probability) : 0)) {
    const std::uint64_t mixed = combine(combine(key.seed, key.step), key.layer);
    philox_key_ = {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
  }

  // Each value by its own draw.
  void values(const Map& x, const Map& y, std::int64_t n) const {
    for (std::int64_t pixel = 0; pixel < y.pixels(); ++pixel) {
      for (std::int64_t c = 0; c < y.channels; c += 4) {
        const Philox::Counter bits = draw(n, pixel, c / 4);
        for (std::int64_t i = 0; i < 4 && c + i < y.channels; ++i) {
          const bool dropped = is_dropped(bits[static_cast<std::size_t>(i)]);
          put(y, offset(y, n, c + i, pixel), dropped ? 0.0F : get(x, offset(x, n, c + i, pixel)) * factor_);
        }
      }
    }
  }

  // All pixels of a channel by one draw, or the whole sample.
  void together(const Map& x, const Map& y, std::int64_t n) const {
    bool dropped[Map::kLanes];
    for (std::int64_t first = 0; first < y.channels; first += Map::kLanes) {
      const std::int64_t lanes = std::min(Map::kLanes, y.channels - first);
      for (std::int64_t i = 0; i < Map::kLanes; i += 4) {
        const Philox::Counter bits = draw(n, 0, key_.by_channel ? (first + i) / 4 : 0);
        for (std::int64_t k = 0; k < 4; ++k) dropped[i + k] = is_dropped(bits[static_cast<std::size_t>(key_.by_channel ? k : 0)]);
      }
      for (std::int64_t pixel = 0; pixel < y.pixels(); ++pixel) {
        const std::int64_t from = offset(x, n, first, pixel), to = offset(y, n, first, pixel);
        for (std::int64_t i = 0; i < lanes; ++i) put(y, to + i, dropped[i] ? 0.0F : get(x, from + i) * factor_);
      }
    }
  }

 private:
  Philox::Counter draw(std::int64_t n, std::int64_t pixel, std::int64_t four) const {
    const std::uint64_t sample = key_.first_sample + static_cast<std::uint64_t>(n);
    return Philox::block({static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                          static_cast<std::uint32_t>(pixel), static_cast<std::uint32_t>(four)},
                         philox_key_);
  }
  // When its 32 bits are below the threshold; a probability of 1 drops everything.
  bool is_dropped(std::uint32_t bits) const { return bits < threshold_; }

  const DropoutKey& key_;
  const std::uint64_t threshold_;
  const float factor_;
  Philox::Key philox_key_{};
};

}  // namespace

void copy_channels(const Map& from, std::int64_t from_channel, const Map& to, std::int64_t to_channel, std::int64_t count) {
  const bool aligned = from_channel % Map::kLanes == 0 && to_channel % Map::kLanes == 0 && from.type == to.type;
  const std::int64_t whole = aligned ? count / Map::kLanes * Map::kLanes : 0;
  for_each_sample(to, [&](std::int64_t n) {
    for (std::int64_t c = 0; c < whole; c += Map::kLanes) {
      for (std::int64_t pixel = 0; pixel < to.pixels(); ++pixel) {
        std::memcpy(address(to, offset(to, n, to_channel + c, pixel)), address(from, offset(from, n, from_channel + c, pixel)),
                    static_cast<std::size_t>(Map::kLanes) * size_of(to.type));
      }
    }
    for (std::int64_t pixel = 0; whole < count && pixel < to.pixels(); ++pixel) {
      for (std::int64_t c = whole; c < count; ++c) {
        put(to, offset(to, n, to_channel + c, pixel), get(from, offset(from, n, from_channel + c, pixel)));
      }
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
  Map plain = from;
  plain.data = to;
  for_each_sample(from, [&](std::int64_t n) {
    for (std::int64_t c = 0; c < from.channels; ++c) {
      for (std::int64_t pixel = 0; pixel < from.pixels(); ++pixel) {
        put(plain, (n * from.channels + c) * from.pixels() + pixel, get(from, offset(from, n, c, pixel)));
      }
    }
  });
}

void from_plain(const void* from, const Map& to) {
  Map plain = to;
  plain.data = const_cast<void*>(from);  // only read
  for_each_sample(to, [&](std::int64_t n) {
    for (std::int64_t c = 0; c < to.channels; ++c) {
      for (std::int64_t pixel = 0; pixel < to.pixels(); ++pixel) {
        put(to, offset(to, n, c, pixel), get(plain, (n * to.channels + c) * to.pixels() + pixel));
      }
    }
    zero_padding(to, n);
  });
}

void dropout(const DropoutKey& key, const Map& x, const Map& y) {
  const DropoutOfSample drops(key);
  for_each_sample(y, [&](std::int64_t n) {
    key.by_pixel ? drops.values(x, y, n) : drops.together(x, y, n);
    zero_padding(y, n);
  });
}

}  // namespace millrace::cpu
