#include "sizes.h"

#include <gtest/gtest.h>

#include <limits>

#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace::web {
namespace {

std::string refusal_of(std::uint64_t bytes) {
  ByteBuffer out;
  try {
    room_for_file(out, bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(out.size(), 0U);
    return error.message();
  }
  return "";
}

TEST(SizesThatServersSay, AreRefusedByNameBeforeMemoryIsReserved) {
  EXPECT_EQ(refusal_of(1 << 20), "");
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes : {kLargestRead + 1, std::uint64_t{1'000'000'000'000'000}, most - 63, most}) {
    const std::string expected =
        "the server reports " + std::to_string(bytes) + " bytes; a file of more than 68719476736 is not read as a whole";
    EXPECT_EQ(refusal_of(bytes), expected);
  }
  EXPECT_EQ(checked_size(kLargestFile), kLargestFile);
  EXPECT_THROW(checked_size(kLargestFile + 1), Error);
}

}  // namespace
}  // namespace millrace::web
