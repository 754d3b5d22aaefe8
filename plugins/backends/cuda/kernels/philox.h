// The random bits of millrace/detail/random.h (Philox 4x32-10 and its mixing of words) for host and device.
#pragma once

#include "portable.h"

namespace millrace::cuda {

struct PhiloxBlock {
  std::uint32_t words[4];
};

// Philox::block(). Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
MILLRACE_HD PhiloxBlock philox(PhiloxBlock counter, std::uint64_t key) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t(&c)[4] = counter.words;
  MILLRACE_UNROLL for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * c[0], product1 = kMultiplier1 * c[2];
    c[0] = static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<std::uint32_t>(product1);
    c[2] = static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

MILLRACE_HD std::uint64_t mix_word(std::uint64_t word) {  // mix64()
  word += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}
MILLRACE_HD std::uint64_t chain_words(std::uint64_t hash, std::uint64_t word) {  // combine()
  return mix_word(hash ^ mix_word(word));
}

}  // namespace millrace::cuda
