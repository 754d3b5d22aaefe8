// The source map in a running graph: kept from step to step in circulating batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/batch.h"
#include "millrace/plugin.h"
#include "millrace/util/batch_input.h"
#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace millrace::test {
namespace {

using testkit::table;

// Images whose pixels encode their origin.
class Placed : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("placed").text("Images of a known place."); }
  Placed(const Params&, const StageSite&) {}
  ImageShape image_shape() const override { return {4, 4, 3}; }
  void process(Sample& sample, Draw&) override {
    const Image image = sample.new_image(image_shape());
    std::fill_n(image.data, image.shape.bytes(), std::uint8_t{1});
    sample.set_image(image, SourceMap{100, 200, AffineMap::translation(static_cast<double>(sample.key.index), 0)});
  }
};

TEST(SourceMap, IsThatOfTheStepInEveryBatch) {
  testkit::TestGraph test;
  test.add<testkit::CountingSource>("read");
  test.add<Placed>("placed");
  test.add<testkit::CountingBatcher>("batch", table({{"size", Value(4)}, {"buffers", Value(1)}}));
  auto& log = test.add<testkit::BatchLog>("log");
  int right = 0, unknown = 0;
  log.on_batch = [&](const Packet& packet, Output&) {
    Batch& batch = static_cast<Batch&>(*packet.payload);
    for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
      const auto index = static_cast<double>(batch.samples[slot].key.index);
      right += seen_source(batch, slot) == SourceMap{100, 200, AffineMap::translation(index, 0)} ? 1 : 0;
    }
    if (batch.step % 2 == 1) batch.change_pixels();  // reset by the next step
    unknown += seen_source(batch, 0).is_known() ? 0 : 1;
  };
  test.run({.threads = 2, .epochs = 2});
  EXPECT_EQ(right, 64);
  EXPECT_EQ(unknown, 8);
}

}  // namespace
}  // namespace millrace::test
