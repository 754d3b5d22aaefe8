// A stage that writes outside its samples' slots is named, and no other.
#include "graph/guard.h"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/line_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using namespace graph_test;
using flow::GuardedMemory;

TEST(Guard, CountsTheBytesThatWereWrittenOutsideAPiece) {
  GuardedMemory memory(3, 10);
  std::memset(memory.piece(1), 255, 10);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(memory.damage(i), "");
  *(memory.piece(1) - 1) ^= 1;
  EXPECT_EQ(memory.damage(1), "1 byte before it");
  memory.piece(1)[10] ^= 1;
  memory.piece(1)[63] ^= 1;
  EXPECT_MESSAGE(memory.damage(1));
  EXPECT_EQ(memory.damage(0), "");
  EXPECT_EQ(memory.damage(2), "");
  memory.renew(1);
  EXPECT_EQ(memory.damage(1), "");
}

TEST(Guard, OfMemoryThatIsBroughtLiesAroundThePiece) {
  std::size_t asked = 0;
  GuardedMemory memory(1, 100, [&](std::size_t bytes) {
    asked = bytes;
    return std::make_shared<std::uint8_t[]>(bytes);
  });
  EXPECT_EQ(asked, memory.total());
  EXPECT_GE(asked, 100 + 2 * GuardedMemory::kGuard);
  EXPECT_EQ(memory.share(0).get(), memory.piece(0));
}

// Writes one byte at `offset` from the end of the image of one sample.
class Writes : public SampleTransform {
 public:
  struct Params {
    std::int64_t index = 0, offset = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("writes").text("Writes outside of an image.");
    d.params.add("index", &Params::index).text("of the sample");
    d.params.add("offset", &Params::offset).text("from the end of the image");
  }
  Writes(const Params& params, const StageSite&) : params_(params) {}
  void process(Sample& sample, Draw&) override {
    if (static_cast<std::int64_t>(sample.key.index) != params_.index) return;
    const Image& image = sample.change_colours();
    *(image.data + static_cast<std::ptrdiff_t>(image.shape.bytes()) + params_.offset) ^= 0x55;
  }

 private:
  Params params_;
};

// The graph's error, or "".
std::string error_with(std::int64_t offset, bool guard) {
  TestGraph test;
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<Writes>("writes", table({{"index", number(5)}, {"offset", number(offset)}}));
  test.add<Jitter>("jitter");
  test.add<CountingBatcher>("batch");
  test.add<BatchLog>("log");
  try {
    test.run({.threads = 2, .guard = guard});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::run);
    return error.what();
  }
  return "";
}

TEST(Guard, NamesTheStageAndTheSample) {
  const std::string advice =
      ". A stage may write only into what Sample::new_image(), change_pixels() and Batch::change_pixels() give it";
  const std::string begin = "stage 'train.writes': sample 'sample/5': it wrote outside the slot of the image (4 x 4 x 3): ";
  EXPECT_EQ(error_with(0, true), begin + "1 byte after it" + advice);
  EXPECT_EQ(error_with(63, true), begin + "1 byte after it" + advice);
  EXPECT_EQ(error_with(-49, true), begin + "1 byte before it" + advice);
}

TEST(Guard, FindsNothingWhereAllKeepToTheirSlots) {
  EXPECT_EQ(error_with(-1, true), "");
  EXPECT_EQ(error_with(-1, false), "");
}

}  // namespace
}  // namespace millrace
