#include "millrace/util/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "millrace/error.h"
#include "millrace/util/bytes.h"

namespace millrace {
namespace {

// Examples from FIPS 180-4.
TEST(Sha256, IsThatOfTheStandardForAnyPieces) {
  if (!has_sha256()) {
    EXPECT_THROW(Sha256(), Error);
    GTEST_SKIP() << "this build has no OpenSSL";
  }
  EXPECT_EQ(hex_text(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_text(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  for (const std::size_t piece : {1'000'000UL, 4096UL, 333UL}) {
    Sha256 sum;
    for (std::size_t at = 0; at < million.size(); at += piece) {
      sum.add(million.data() + at, std::min(piece, million.size() - at));
      sum.add("", 0);
    }
    EXPECT_EQ(hex_text(sum.finish()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") << piece;
  }
}

}  // namespace
}  // namespace millrace
