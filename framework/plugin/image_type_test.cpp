// 16-bit images and clips reach only stages that accept them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "millrace/batch.h"
#include "testkit/files.h"
#include "testkit/graph_fixture.h"
#include "testkit/messages.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

using testkit::table;

constexpr ImageShape kDeep{4, 4, 3, 1, DataType::u16}, kClip{4, 4, 3, 2};

// Emits 16-bit images.
class Deep : public SampleTransform {
 public:
  struct Params {
    bool tells = true;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("deep").text("Images of 16 bits.");
    d.params.add("tells", &Params::tells).text("that they have 16 bits");
  }
  Deep(const Params& params, const StageSite&) : params_(params) {}
  ImageShape image_shape() const override { return params_.tells ? kDeep : ImageShape{4, 4, 3}; }
  void process(Sample& sample, Draw&) override {
    const Image image = sample.new_image(kDeep);
    for (std::size_t i = 0; i < kDeep.elements(); ++i) {
      const auto value = static_cast<std::uint16_t>(256 * (i + 1));
      std::memcpy(image.data + 2 * i, &value, sizeof value);
    }
    sample.set_image(image);
  }

 private:
  Params params_;
};

// Converts any image to 8 bits.
class Shallow : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("shallow").text("Images of 8 bits.").any_image(); }
  Shallow(const Params&, const DataContext& context) : input_(context.image) {}
  ImageShape image_shape() const override { return {input_.height, input_.width, input_.channels}; }
  void process(Sample& sample, Draw&) override {
    const ImageView from = sample.image();
    const Image to = sample.new_image({from.shape.height, from.shape.width, from.shape.channels});
    for (std::size_t i = 0; i < to.shape.elements(); ++i) {
      std::uint16_t value = 0;
      std::memcpy(&value, from.data + 2 * i, sizeof value);
      to.data[i] = static_cast<std::uint8_t>(value >> 8);
    }
    sample.set_image(to, AffineMap());
  }

 private:
  ImageShape input_;
};

// Declares nothing about images.
class Plain : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("plain").text("Does nothing."); }
  Plain(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

template <class T>
std::string refusal_of(const ImageShape& image) {
  StepContext context;
  context.image = image;
  try {
    testkit::Harness harness(StageTypeAccess::make<T>(), {}, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "";
}

TEST(ImageType, StagesThatSayNothingTakePlainImages) {
  EXPECT_EQ(refusal_of<Plain>({4, 4, 3}), "");
  EXPECT_EQ(refusal_of<Plain>({0, 0, 3}), "");
  EXPECT_MESSAGE(refusal_of<Plain>(kDeep));
  EXPECT_MESSAGE(refusal_of<Plain>(kClip));
  EXPECT_EQ(refusal_of<Shallow>(kDeep), "");
  EXPECT_EQ(refusal_of<Shallow>(kClip), "");
}

TEST(ImageType, SixteenBitsGoThroughAGraphToAStageThatTakesThem) {
  testkit::TestGraph test;
  test.add<testkit::CountingSource>("read");
  test.add<Deep>("deep");
  test.add<Shallow>("shallow");
  test.add<testkit::CountingBatcher>("batch", table({{"size", Value(4)}}));
  auto& log = test.add<testkit::BatchLog>("log");
  std::uint64_t right = 0;
  log.on_batch = [&](const Packet& packet, Output&) {
    const Batch& batch = static_cast<const Batch&>(*packet.payload);
    for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
      const std::uint8_t* const pixels = batch.pixels + slot * batch.image.bytes();
      right += pixels[0] == 1 && pixels[47] == 48 ? 1 : 0;
    }
  };
  test.run({.threads = 2});
  EXPECT_EQ(right, 32U);
}

TEST(ImageType, ABatchIsOfPlainImages) {
  testkit::TestGraph test;
  test.add<testkit::CountingSource>("read");
  test.add<Deep>("deep");
  EXPECT_THROW(test.add<testkit::CountingBatcher>("batch", table({{"size", Value(4)}})), Error);
}

TEST(ImageType, AStageThatBreaksItsWordIsFoundOut) {
  testkit::TestGraph test;
  test.add<testkit::CountingSource>("read");
  test.add<Deep>("deep", table({{"tells", Value(false)}}));
  test.add<Plain>("plain");
  test.add<testkit::CountingBatcher>("batch", table({{"size", Value(4)}}));
  test.add<testkit::BatchLog>("log");
  const Error error = testkit::error_of(ErrorKind::usage, [&] { test.run({.threads = 2}); });
  EXPECT_NE(std::string(error.what()).find("an image of 4 x 4 x 3, u16 arrives, but 8-bit images of one frame were announced"),
            std::string::npos)
      << error.what();
}

TEST(ImageType, BuffersHaveTheBytesOfTheirElements) {
  std::vector<std::uint8_t> slot(48);
  Sample sample;
  sample.reset({}, {slot.data(), {4, 4, 3}});
  EXPECT_EQ(sample.new_image({4, 4, 3}).data, slot.data());
  for (const ImageShape& shape : {kDeep, kClip}) {
    const Image image = sample.new_image(shape);
    ASSERT_NE(image.data, slot.data()) << "it is too small";
    std::memset(image.data, 1, 96);
    sample.set_image(image);
    EXPECT_EQ(sample.image().shape, shape);
  }
}

}  // namespace
}  // namespace millrace
