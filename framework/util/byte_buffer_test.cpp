#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "testkit/files.h"

namespace millrace {
namespace {

TEST(ByteBuffer, KeepsItsMemory) {
  ByteBuffer buffer;
  const std::uint8_t* first = buffer.resize(100);
  EXPECT_EQ(buffer.resize(10), first);
  EXPECT_EQ(buffer.size(), 10U);
  EXPECT_EQ(buffer.resize(100), first);
  buffer.resize(1001);
  EXPECT_GE(buffer.capacity(), 1001U);
  EXPECT_LE(buffer.capacity(), 1251U) << "memory bounds count on it";
}

TEST(ByteBuffer, RefusesASizeWhoseCapacityWouldWrap) {
  ByteBuffer buffer;
  std::memset(buffer.resize(100), 7, 100);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {ByteBuffer::kMax + 1, most / 2, most - (most >> 3U) + 1, most - 63, most}) {
    const Error error = testkit::error_of(ErrorKind::data, [&] { buffer.resize(size); });
    EXPECT_EQ(error.message(), std::to_string(size) + " bytes are more than a buffer can hold (4611686018427387904)");
    EXPECT_EQ(buffer.size(), 100U);
    EXPECT_EQ(buffer.data()[99], 7);
  }
}

}  // namespace
}  // namespace millrace
