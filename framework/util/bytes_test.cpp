#include "millrace/util/bytes.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ParseBytes, KnowsItsUnits) {
  EXPECT_EQ(parse_bytes("1048576"), 1048576U);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(parse_bytes("4 GiB"), std::uint64_t{4} << 30);
  EXPECT_EQ(parse_bytes("16 MiB"), 16U << 20);
}

TEST(ParseBytes, RefusesWhatIsNoNumberOfBytes) {
  for (const char* text : {"", "GB", "-1", "0", "4 gib", "1 parsec", "1e30 TB", "nan", "4 GB of it", " 4"}) {
    EXPECT_EQ(parse_bytes(text), 0U) << text;
  }
}

}  // namespace
}  // namespace millrace
