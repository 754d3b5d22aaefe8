#include "util/crc64.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

std::string crc64(std::string_view text, std::size_t piece = 1000) {
  Crc64 sum;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) sum.add(text.data(), std::min(piece, text.size()));
  return sum.text();
}

TEST(Crc64, IsThatOfXz) {
  EXPECT_EQ(crc64(""), "0000000000000000");
  EXPECT_EQ(crc64("123456789"), "995dc9bbdf1939fa");  // the check value of CRC-64/XZ
}

TEST(Crc64, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * i % 251);
  for (const std::size_t piece : {1, 3, 8, 13, 64}) EXPECT_EQ(crc64(text, piece), crc64(text)) << piece;
}

TEST(Crc64, SeesEveryBit) {
  const std::string text(40, 'x');
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(crc64(changed), crc64(text)) << bit;
  }
}

}  // namespace
}  // namespace millrace
