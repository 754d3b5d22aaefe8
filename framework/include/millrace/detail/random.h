// Stateless random numbers: every draw is a function of (seed, epoch, position, attempt, stage name) and of the number of earlier
// draws by that stage for that sample. It does not depend on thread count, device count or timing.
//
// Generator: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

struct Philox {
  using Counter = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;
  static Counter block(Counter counter, Key key);  // ten rounds
};

// mix64() is a bijection of 64-bit words (the finaliser of splitmix64); combine() chains words into one hash.
std::uint64_t mix64(std::uint64_t word);
inline std::uint64_t combine(std::uint64_t hash, std::uint64_t word) { return mix64(hash ^ mix64(word)); }

// 64-bit hash of bytes, several bytes per cycle. Not cryptographic.
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text);

// Identifies a sample's place in the stream. `position` counts samples within the epoch; `index` is the sample's index in the
// source; `attempt` > 0 is a replacement for a bad sample.
struct SampleKey {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t index = 0;
  std::uint32_t attempt = 0;
};

// The generator of one stage for one sample. Cheap to make; not thread-safe. It hashes everything drawn, for the epoch's stream
// hash.
class Draw {
 public:
  Draw(std::uint64_t seed, const SampleKey& key, std::uint64_t stage_hash);  // stage_hash = hash_text(stage name)

  std::uint32_t bits();
  double uniform();                                           // [0, 1), 32 bits
  double uniform(double low, double high);                    // [low, high)
  std::int64_t integer(std::int64_t low, std::int64_t high);  // low ... high, both included, without bias
  bool chance(double probability);                            // always draws, also for 0 and 1
  double normal();                                            // mean 0, deviation 1 (Box-Muller)

  std::uint64_t hash() const { return hash_; }  // 0 if nothing was drawn

 private:
  Philox::Key key_;
  Philox::Counter counter_;
  Philox::Counter block_{};
  unsigned used_ = 4;
  std::uint64_t hash_ = 0;
};

// A permutation of 0 ... size-1, computed element by element in constant memory: a Feistel network over Philox with cycle
// walking. The same (seed, epoch) gives the same permutation on every machine.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);  // REQUIRES: size > 0
  std::uint64_t operator()(std::uint64_t position) const;                    // REQUIRES: position < size

 private:
  std::uint64_t size_;
  unsigned half_bits_;
  Philox::Key key_;
  std::uint64_t epoch_;
};

}  // namespace millrace
