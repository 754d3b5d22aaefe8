#include "sha256.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, IsThatOfTheStandard) {
  Sha256 empty, abc;
  EXPECT_EQ(empty.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  abc.add("a", 1);
  abc.add("", 0);
  abc.add("bc", 2);
  EXPECT_EQ(abc.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, TakesALargeFileInAnyPieces) {
  const std::string million(1'000'000, 'a');
  for (const std::size_t piece : {1'000'000UL, 4096UL, 333UL}) {
    Sha256 digest;
    for (std::size_t at = 0; at < million.size(); at += piece)
      digest.add(million.data() + at, std::min(piece, million.size() - at));
    EXPECT_EQ(digest.finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") << piece;
  }
}

}  // namespace
}  // namespace millrace
