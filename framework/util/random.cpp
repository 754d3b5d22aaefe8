#include "millrace/detail/random.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>

namespace millrace {

namespace {

__extension__ using Word128 = unsigned __int128;

static_assert(std::endian::native == std::endian::little, "hash_bytes() reads words in the processor's order");

// Odd words without structure: the fractional parts of the square roots of 2, 3, 5, 7, 11, 13, 17, 19, made odd.
constexpr std::uint64_t kWords[8] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                     0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

// Folds the 128-bit product into 64 bits: every bit of the result depends on nearly every bit of both factors.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Word128 product = static_cast<Word128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

constexpr std::size_t kBlock = 64;

// Four independent chains of sixteen bytes each.
void absorb(std::uint64_t (&lanes)[4], const unsigned char* block) {
  std::uint64_t words[8];
  std::memcpy(words, block, kBlock);
  for (std::size_t i = 0; i < 4; ++i) lanes[i] = fold(words[2 * i] ^ kWords[i], words[2 * i + 1] ^ lanes[i]);
}

std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
Philox::Key key_of(std::uint64_t word) { return {low(word), high(word)}; }

}  // namespace

Philox::Counter Philox::block(Counter counter, Key key) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t mix64(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t lanes[4];
  for (std::size_t i = 0; i < 4; ++i) lanes[i] = mix64(seed) ^ kWords[4 + i];
  std::size_t left = size;
  for (; left >= kBlock; left -= kBlock, bytes += kBlock) absorb(lanes, bytes);
  if (left > 0) {
    unsigned char last[kBlock] = {};  // the size, mixed in below, distinguishes padding from content
    std::memcpy(last, bytes, left);
    absorb(lanes, last);
  }
  const std::uint64_t first = fold(lanes[0] ^ kWords[1], lanes[1] ^ size);
  const std::uint64_t second = fold(lanes[2] ^ kWords[2], lanes[3] ^ seed);
  return mix64(first ^ std::rotl(second, 29));
}

std::uint64_t hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }

// The key is (seed, stage); the counter is laid out so that no two (epoch, position, attempt, block) share one:
// block of this sample | position, low half | position, high 16 bits, and attempt | epoch.
Draw::Draw(std::uint64_t seed, const SampleKey& key, std::uint64_t stage_hash)
    : key_(key_of(combine(seed, stage_hash))),
      counter_{0, low(key.position), (high(key.position) << 16) | (key.attempt & 0xffffU), low(key.epoch)} {}

std::uint32_t Draw::bits() {
  if (used_ == block_.size()) {
    block_ = Philox::block(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  const std::uint32_t word = block_[used_++];
  hash_ = mix64(hash_ ^ word);
  return word;
}

double Draw::uniform() { return bits() * 0x1p-32; }

double Draw::uniform(double low_end, double high_end) {
  const double value = low_end + (high_end - low_end) * uniform();
  return value < high_end || low_end == high_end ? value : std::nextafter(high_end, low_end);  // rounding may reach the end
}

// Multiply and shift, rejecting words that would favour some results (Lemire, "Fast random integer generation in an interval",
// 2019).
std::int64_t Draw::integer(std::int64_t low_end, std::int64_t high_end) {
  assert(low_end <= high_end);
  const std::uint64_t last = static_cast<std::uint64_t>(high_end) - static_cast<std::uint64_t>(low_end);
  const auto result = [low_end](std::uint64_t offset) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low_end) + offset);
  };
  if (last < 0xffffffffU) {
    const std::uint32_t count = low(last) + 1;
    const std::uint32_t unfair = (0U - count) % count;  // 2^32 mod count
    std::uint64_t product = std::uint64_t{bits()} * count;
    while (low(product) < unfair) product = std::uint64_t{bits()} * count;
    return result(product >> 32);
  }
  const auto word = [this] {
    const std::uint64_t upper = bits();
    return (upper << 32) | bits();
  };
  if (last == ~std::uint64_t{0}) return result(word());
  const std::uint64_t count = last + 1;
  const std::uint64_t unfair = (0U - count) % count;
  Word128 product = static_cast<Word128>(word()) * count;
  while (static_cast<std::uint64_t>(product) < unfair) product = static_cast<Word128>(word()) * count;
  return result(static_cast<std::uint64_t>(product >> 64));
}

bool Draw::chance(double probability) { return uniform() < probability; }

double Draw::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));  // 1 - uniform() is never 0
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size),
      half_bits_((static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2),
      key_(key_of(combine(seed, hash_text("millrace permutation")))),
      epoch_(epoch) {
  assert(size > 0);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  assert(position < size_);
  constexpr std::uint32_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // The network permutes 0 ... 4^half_bits - 1, at most four times `size` numbers. Repeating it until the value is below `size`
  // gives a permutation of 0 ... size - 1.
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t noise = Philox::block({low(right), round, low(epoch_), high(epoch_)}, key_)[0];
      const std::uint64_t next = left ^ (noise & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace millrace
