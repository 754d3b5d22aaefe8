#include "kernels/dropout.h"

#include <algorithm>

#include "kernels/map_elements.h"

namespace millrace::cpu {
namespace {

// Dropout of one sample at a time, by a key.
class DropoutOfSample {
 public:
  explicit DropoutOfSample(const DropoutKey& key)
      : key_(key),
        threshold_(static_cast<std::uint64_t>(key.probability * 4294967296.0)),
        factor_(static_cast<float>(key.probability < 1 ? 1 / (1 - key.probability) : 0)) {
    const std::uint64_t mixed = combine(combine(key.seed, key.step), key.layer);
    philox_key_ = {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
  }

  // One draw per value.
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

  // One draw for all pixels of a channel, or for the whole sample.
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
  // True if its 32 bits are below the threshold; a probability of 1 drops everything.
  bool is_dropped(std::uint32_t bits) const { return bits < threshold_; }

  const DropoutKey& key_;
  const std::uint64_t threshold_;
  const float factor_;
  Philox::Key philox_key_{};
};

}  // namespace

void dropout(const DropoutKey& key, const Map& x, const Map& y) {
  const DropoutOfSample drops(key);
  for_each_sample(y, [&](std::int64_t n) {
    key.by_pixel ? drops.values(x, y, n) : drops.together(x, y, n);
    zero_padding(y, n);
  });
}

}  // namespace millrace::cpu
