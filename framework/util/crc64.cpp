#include "util/crc64.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace millrace {
namespace {

constexpr std::uint64_t kPolynomial = 0xc96c5795d7870f42;
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint64_t, 256>, kSlices>;

// [s][b]: contribution of byte b when s bytes follow it, for looking up eight bytes at once.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::uint64_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

void Crc64::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t sum = state_;
  for (; bytes >= kSlices; bytes -= kSlices, at += kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word ^= sum;
    sum = 0;
    for (std::size_t byte = 0; byte < kSlices; ++byte) sum ^= kTables[kSlices - 1 - byte][(word >> (8 * byte)) & 0xff];
  }
  for (; bytes > 0; --bytes) sum = (sum >> 8) ^ kTables[0][(sum ^ *at++) & 0xff];
  state_ = sum;
}

std::string Crc64::text() const { return fmt::format("{:016x}", value()); }

}  // namespace millrace
