#include "kernels/rearrange.h"

#include <algorithm>
#include <cstring>

#include "millrace/random.h"

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

// What is dropped by a key.
class Dropped {
 public:
  explicit Dropped(const DropoutKey& key)
      : key_(key),
        threshold_(static_cast<std::uint64_t>(key.probability * 4294967296.0)),
        factor_(static_cast<float>(key.probability < 1 ? 1 / (1 - key.probability) : 0)) {
    const std::uint64_t mixed = combine(combine(key.seed, key.step), key.layer);
    philox_key_ = {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
  }

  // What channels first ... first + lanes - 1 are multiplied by; 0 where they are dropped. REQUIRES: `first` begins a block.
  void factors(std::int64_t n, std::int64_t first, std::int64_t lanes, std::int64_t pixel, float (&to)[Map::kLanes]) const {
    const std::uint64_t sample = key_.first_sample + static_cast<std::uint64_t>(n);
    Philox::Counter bits{};
    for (std::int64_t i = 0; i < lanes; ++i) {
      const std::int64_t c = key_.by_channel ? first + i : 0;
      if (i % 4 == 0) {
        bits = Philox::block({static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                              static_cast<std::uint32_t>(key_.by_pixel ? pixel : 0), static_cast<std::uint32_t>(c / 4)},
                             philox_key_);
      }
      // Dropped when its 32 bits are below the threshold; a probability of 1 drops everything.
      to[i] = bits[static_cast<std::size_t>(c % 4)] < threshold_ ? 0.0F : factor_;
    }
  }

 private:
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
  const Dropped dropped(key);
  for_each_sample(y, [&](std::int64_t n) {
    float factors[Map::kLanes] = {};
    for (std::int64_t block = 0; block < y.blocks(); ++block) {
      const std::int64_t first = block * Map::kLanes, lanes = std::min(Map::kLanes, y.channels - first);
      for (std::int64_t pixel = 0; pixel < y.pixels(); ++pixel) {
        if (key.by_pixel || pixel == 0) dropped.factors(n, first, lanes, pixel, factors);
        const std::int64_t from = offset(x, n, first, pixel), to = offset(y, n, first, pixel);
        for (std::int64_t i = 0; i < lanes; ++i) put(y, to + i, factors[i] == 0 ? 0.0F : get(x, from + i) * factors[i]);
      }
    }
    zero_padding(y, n);
  });
}

}  // namespace millrace::cpu
