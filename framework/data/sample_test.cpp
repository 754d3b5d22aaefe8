#include "millrace/sample.h"
#include "millrace/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "millrace/util/batch_input.h"
#include "millrace/util/centre.h"

namespace millrace {
namespace {

constexpr Border kBorders[] = {Border::constant, Border::reflect, Border::edge};

// An image with different bytes everywhere, and memory after it.
struct TestImage {
  std::vector<std::uint8_t> bytes;
  Image image;

  TestImage(std::int32_t height, std::int32_t width, std::int32_t channels, std::uint64_t seed = 1) {
    const ImageShape shape{height, width, channels};
    bytes.resize(shape.bytes());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(mix64(seed + i));
    image = {bytes.data(), shape};
  }
};

// An infinite image: the value at a coordinate, found by walking step by step instead of by formula.
using Plane = std::function<std::uint8_t(int row, int column, int channel)>;

int walk(int at, int extent, bool reflect) {
  int position = at < 0 ? 0 : extent - 1, direction = at < 0 ? 1 : -1;
  int left = at < 0 ? -at : at - (extent - 1);
  while (left-- > 0 && reflect && extent > 1) {
    if (position + direction < 0 || position + direction >= extent) direction = -direction;
    position += direction;
  }
  return position;
}

Plane plane_of(const Image& image, Border border, const std::uint8_t* fill) {
  return [image, border, fill](int row, int column, int channel) {
    const bool inside = row >= 0 && row < image.shape.height && column >= 0 && column < image.shape.width;
    if (!inside && border == Border::constant) return fill[channel];
    if (row < 0 || row >= image.shape.height) row = walk(row, image.shape.height, border == Border::reflect);
    if (column < 0 || column >= image.shape.width) column = walk(column, image.shape.width, border == Border::reflect);
    return image.data[(row * image.shape.width + column) * image.shape.channels + channel];
  };
}

std::vector<std::uint8_t> look(const Plane& plane, ImageShape window) {
  std::vector<std::uint8_t> out;
  for (int row = 0; row < window.height; ++row) {
    for (int column = 0; column < window.width; ++column) {
      for (int channel = 0; channel < window.channels; ++channel) out.push_back(plane(row, column, channel));
    }
  }
  return out;
}

std::vector<std::uint8_t> apply(const AugmentationRecord& record, const Image& image, ImageShape window) {
  std::vector<std::uint8_t> out(window.bytes());
  apply_record(record, image, window, out.data());
  return out;
}

TEST(AugmentationRecord, AgreesWithFlippingAndShiftingThePixels) {
  Draw draw(1, {}, 2);
  const auto pick = [&draw](int low, int high) { return static_cast<int>(draw.integer(low, high)); };
  for (int round = 0; round < 600; ++round) {
    const TestImage source(pick(1, 6), pick(1, 6), pick(1, 4), static_cast<std::uint64_t>(round));
    const ImageShape window{pick(1, 7), pick(1, 7), source.image.shape.channels};
    AugmentationRecord record;
    record.border = kBorders[round % 3];
    for (std::uint8_t& fill : record.fill) fill = static_cast<std::uint8_t>(pick(0, 255));
    Plane seen = plane_of(source.image, record.border, record.fill);
    for (int step = pick(0, 5); step > 0; --step) {
      const Plane before = seen;
      switch (pick(0, 2)) {
        case 0:
          record.flip_x(window.width);
          seen = [before, window](int row, int column, int channel) { return before(row, window.width - 1 - column, channel); };
          break;
        case 1:
          record.flip_y(window.height);
          seen = [before, window](int row, int column, int channel) { return before(window.height - 1 - row, column, channel); };
          break;
        default: {
          const int dx = pick(-20, 20), dy = pick(-20, 20);  // several times the image's size
          record.translate(dx, dy);
          seen = [before, dx, dy](int row, int column, int channel) { return before(row - dy, column - dx, channel); };
        }
      }
    }
    ASSERT_EQ(apply(record, source.image, window), look(seen, window)) << round;
  }
}

TEST(AugmentationRecord, MovesToTheRightAndDown) {
  std::uint8_t pixels[] = {1, 2, 3, 4, 5, 6};  // two rows of three
  const Image image{pixels, {2, 3, 1}};
  AugmentationRecord record;
  record.fill[0] = 9;
  record.translate(1, 0);
  EXPECT_EQ(apply(record, image, image.shape), (std::vector<std::uint8_t>{9, 1, 2, 9, 4, 5}));
  record.translate(0, 1);
  EXPECT_EQ(apply(record, image, image.shape), (std::vector<std::uint8_t>{9, 9, 9, 9, 1, 2}));
  record.flip_x(3);
  EXPECT_EQ(apply(record, image, image.shape), (std::vector<std::uint8_t>{9, 9, 9, 2, 1, 9}));
}

TEST(AugmentationRecord, ReflectsWithoutRepeatingTheEdge) {
  std::uint8_t pixels[] = {0, 1, 2};
  AugmentationRecord record;
  record.border = Border::reflect;
  record.x = -5;
  EXPECT_EQ(apply(record, {pixels, {1, 3, 1}}, {1, 11, 1}), (std::vector<std::uint8_t>{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1}));
}

TEST(AugmentationRecord, TwoFlipsAreNone) {
  AugmentationRecord record;
  record.flip_x(5);
  EXPECT_FALSE(record.is_identity());
  record.flip_x(5);
  record.flip_y(4);
  record.flip_y(4);
  EXPECT_TRUE(record.is_identity());
}

// Rows 0, 1, 2 of an image cover rows 00 01, 10 11, 20 21 of a target of twice the size.
TEST(AugmentationRecord, OfALargerTargetShowsWhatItsImageShows) {
  std::uint8_t pixels[] = {0, 1, 2}, beside[] = {0, 1, 10, 11, 20, 21};
  TargetSpec target;
  target.kind = TargetSpec::Kind::image;
  target.scale = 2;
  const auto seen = [&](const AugmentationRecord& record, int rows) {
    EXPECT_EQ(target_record(record, target).scale, 2);
    return std::pair(apply(record, {pixels, {3, 1, 1}}, {rows, 1, 1}),
                     apply(target_record(record, target), {beside, {6, 1, 1}}, {2 * rows, 1, 1}));
  };
  using Rows = std::vector<std::uint8_t>;
  AugmentationRecord record;
  record.fill[0] = 9;
  record.translate(0, 1);
  EXPECT_EQ(seen(record, 3), (std::pair{Rows{9, 0, 1}, Rows{9, 9, 0, 1, 10, 11}}));
  record.flip_y(3);
  EXPECT_EQ(seen(record, 3), (std::pair{Rows{1, 0, 9}, Rows{11, 10, 1, 0, 9, 9}}));
  record = {};
  record.border = Border::reflect;  // about the centre of the edge pixels of both
  record.y = -3;
  EXPECT_EQ(seen(record, 8),
            (std::pair{Rows{1, 2, 1, 0, 1, 2, 1, 0}, Rows{10, 11, 20, 21, 11, 10, 0, 1, 10, 11, 20, 21, 11, 10, 0, 1}}));
  record.border = Border::edge;
  record.y = -1;
  EXPECT_EQ(seen(record, 5), (std::pair{Rows{0, 0, 1, 2, 2}, Rows{0, 0, 0, 1, 10, 11, 20, 21, 21, 21}}));
}

TEST(AugmentationRecord, OfALargerTargetReflectsAnImageOfOnePixel) {
  std::uint8_t beside[] = {1, 2};
  AugmentationRecord record;
  record.border = Border::reflect;
  record.scale = 2;
  record.x = -3;
  EXPECT_EQ(apply(record, {beside, {1, 2, 1}}, {1, 7, 1}), (std::vector<std::uint8_t>{2, 1, 2, 1, 2, 1, 2}));
}

class SampleTest : public testing::Test {
 protected:
  SampleTest() { sample_.reset({}, {slot_.data(), {4, 4, 1}}); }

  void show(const TestImage& source) {
    const Image image = sample_.new_image(source.image.shape);
    std::memcpy(image.data, source.bytes.data(), source.bytes.size());
    sample_.set_image(image);
  }
  std::vector<std::uint8_t> pixels() const {
    return {sample_.image().data, sample_.image().data + sample_.image().shape.bytes()};
  }

  std::vector<std::uint8_t> slot_ = std::vector<std::uint8_t>(16);
  Sample sample_;
};

TEST_F(SampleTest, WritesImagesOfTheBatchesShapeIntoTheirSlot) {
  EXPECT_EQ(sample_.new_image({4, 4, 1}).data, slot_.data());
  EXPECT_NE(sample_.new_image({5, 4, 1}).data, slot_.data());
  EXPECT_NE(sample_.new_image({4, 4, 3}).data, slot_.data());
}

TEST_F(SampleTest, NeverHandsOutTheMemoryOfTheImageItHas) {
  for (int round = 0; round < 3; ++round) {
    for (const ImageShape shape : {ImageShape{4, 4, 1}, ImageShape{9, 9, 3}, ImageShape{2, 2, 1}, ImageShape{4, 4, 1}}) {
      const Image next = sample_.new_image(shape);
      ASSERT_NE(next.data, nullptr);
      ASSERT_NE(next.data, sample_.image().data);
      std::memset(next.data, round, shape.bytes());
      sample_.set_image(next);
      ASSERT_NE(sample_.new_image(shape).data, next.data);
    }
  }
}

TEST_F(SampleTest, AllocatesNothingOnceItHasSeenTheSizes) {
  std::vector<const std::uint8_t*> first;
  for (int round = 0; round < 3; ++round) {
    sample_.reset({}, {slot_.data(), {4, 4, 1}});
    std::vector<const std::uint8_t*> used;
    for (const ImageShape shape : {ImageShape{9, 9, 3}, ImageShape{8, 8, 3}, ImageShape{4, 4, 1}}) {
      const Image image = sample_.new_image(shape);
      used.push_back(image.data);
      sample_.set_image(image);
    }
    if (round == 0) first = used;
    EXPECT_EQ(used, first);
  }
}

TEST_F(SampleTest, AppliesAPendingRecordOnce) {
  const TestImage source(6, 6, 1);
  show(source);
  place_window(sample_, {4, 4, 1});
  sample_.record.flip_x(4);
  sample_.record.translate(1, -1);
  const auto expected = apply(sample_.record, source.image, {4, 4, 1});
  apply_pending(sample_, {4, 4, 1});
  EXPECT_EQ(pixels(), expected);
  EXPECT_EQ(sample_.image().data, slot_.data());
  EXPECT_TRUE(sample_.record.is_identity());
  apply_pending(sample_, {4, 4, 1});
  EXPECT_EQ(pixels(), expected);
}

// Without a network, the whole image is the window.
TEST_F(SampleTest, AppliesAPendingRecordToTheWholeImageWithoutAWindow) {
  const TestImage source(5, 6, 1);
  show(source);
  place_window(sample_, source.image.shape);
  sample_.record.flip_x(6);
  const auto expected = apply(sample_.record, source.image, source.image.shape);
  apply_pending(sample_, {});
  EXPECT_EQ(sample_.image().shape, source.image.shape);
  EXPECT_EQ(pixels(), expected);
}

TEST_F(SampleTest, ExecutesAPendingRecordOnTheWholeImage) {
  const TestImage source(8, 9, 1);
  const ImageShape window{4, 5, 1};
  show(source);
  place_window(sample_, window);
  sample_.record.flip_x(5);
  sample_.record.translate(1, -1);
  sample_.record.border = Border::edge;
  const auto expected = apply(sample_.record, source.image, window);
  execute_pending(sample_, window);
  EXPECT_EQ(sample_.image().shape, source.image.shape);
  EXPECT_TRUE(sample_.record.is_identity());
  place_window(sample_, window);
  apply_pending(sample_, window);
  EXPECT_EQ(pixels(), expected) << "the window shows what it would have shown";
}

TEST_F(SampleTest, MirrorsTheWholeImageAboutItsMiddle) {
  const TestImage source(7, 9, 1);
  for (const ImageShape window : {ImageShape{4, 6, 1}, ImageShape{4, 4, 1}, ImageShape{8, 12, 1}, ImageShape{7, 9, 1}}) {
    show(source);
    place_window(sample_, window);
    sample_.record.flip_x(window.width);
    execute_pending(sample_, window);
    std::vector<std::uint8_t> expected = source.bytes;
    for (int row = 0; row < 7; ++row) std::reverse(expected.begin() + 9 * row, expected.begin() + 9 * (row + 1));
    EXPECT_EQ(pixels(), expected) << "window of " << window.width;
  }
}

TEST_F(SampleTest, LeavesTheImageAloneWhenNothingIsPending) {
  const TestImage source(6, 6, 1);
  show(source);
  execute_pending(sample_, {4, 4, 1});
  apply_pending(sample_, {4, 4, 1});
  EXPECT_EQ(sample_.image().shape, source.image.shape);
  EXPECT_EQ(pixels(), source.bytes);
}

TEST(Centred, RoundsHalfAPixelToTheEvenNumberAsTorchvisionDoes) {
  // int(round((extent - 10) / 2.0)) in Python
  constexpr int kPython[] = {0, 0, 1, 2, 2, 2, 3, 4, 4};
  for (int margin = 0; margin < 9; ++margin) EXPECT_EQ(centred(10 + margin, 10), kPython[margin]) << margin;
  EXPECT_EQ(centred(342, 299), 22);
}

TEST_F(SampleTest, CentresTheWindowOnce) {
  show(TestImage(7, 8, 1));
  place_window(sample_, {4, 4, 1});
  EXPECT_EQ(sample_.record.x, 2);
  EXPECT_EQ(sample_.record.y, 2);
  sample_.record.translate(2, 2);  // back to the corner: still placed
  place_window(sample_, {4, 4, 1});
  EXPECT_EQ(sample_.record.x, 0);
  apply_pending(sample_, {4, 4, 1});
  EXPECT_EQ(sample_.image().shape, (ImageShape{4, 4, 1}));
}

TEST_F(SampleTest, StartsAnewInItsSlot) {
  show(TestImage(4, 4, 1));
  sample_.url = "somewhere";
  sample_.label = 3;
  sample_.hash = 5;
  sample_.encoded.resize(10);
  sample_.record.translate(1, 1);
  sample_.fault = SampleFault{"decode_image", "broken"};
  sample_.reset({1, 2, 3, 4}, {slot_.data(), {4, 4, 1}});
  EXPECT_EQ(sample_.key.position, 2U);
  EXPECT_EQ(sample_.key.attempt, 4U);
  EXPECT_TRUE(sample_.url.empty());
  EXPECT_EQ(sample_.label, -1);
  EXPECT_EQ(sample_.hash, 0U);
  EXPECT_EQ(sample_.encoded.size(), 0U);
  EXPECT_TRUE(sample_.record.is_identity());
  EXPECT_FALSE(sample_.fault);
  EXPECT_EQ(sample_.image().data, nullptr);
}

// Two batches of the same four images: one shows a window of larger images, the other stores the windows themselves.
TEST(HashOfInput, DependsOnWhatIsSeenAndNotOnHowItIsStored) {
  constexpr ImageShape kStored{6, 7, 3}, kWindow{4, 4, 3};
  struct Slots {
    std::vector<std::uint8_t> pixels;
    std::vector<AugmentationRecord> records = std::vector<AugmentationRecord>(4);
    std::vector<std::int32_t> labels = {3, 1, 4, 1};
    std::vector<float> weights = std::vector<float>(4, 1.0F);

    void show(Batch& batch, ImageShape image, ImageShape window) {
      batch.image = image;
      batch.window = window;
      batch.count = 4;
      batch.pixels = pixels.data();
      batch.records = records.data();
      batch.labels = labels.data();
      batch.weights = weights.data();
    }
  };
  Slots stored, seen;
  for (std::uint64_t slot = 0; slot < 4; ++slot) {
    const TestImage image(kStored.height, kStored.width, kStored.channels, 100 * slot);
    stored.pixels.insert(stored.pixels.end(), image.bytes.begin(), image.bytes.end());
    AugmentationRecord& record = stored.records[slot];
    record.translate(static_cast<int>(slot), 1);
    if (slot % 2 == 0) record.flip_x(kWindow.width);
    std::vector<std::uint8_t> window(kWindow.bytes());
    apply_record(record, image.image, kWindow, window.data());
    seen.pixels.insert(seen.pixels.end(), window.begin(), window.end());
  }
  Batch first, second;
  stored.show(first, kStored, kWindow);
  seen.show(second, kWindow, kWindow);
  const std::uint64_t hash = hash_of_input(first);
  EXPECT_EQ(hash, hash_of_input(second));
  seen.pixels[kWindow.bytes() + 5] ^= 1;
  EXPECT_NE(hash, hash_of_input(second));
  seen.pixels[kWindow.bytes() + 5] ^= 1;
  std::swap(seen.labels[0], seen.labels[2]);
  EXPECT_NE(hash, hash_of_input(second));
}

TEST(HashOfInput, SeesTheWholeOfALargerTarget) {
  std::uint8_t pixels[4] = {1, 2, 3, 4}, targets[16] = {};
  for (std::uint8_t i = 0; i < 16; ++i) targets[i] = i;
  AugmentationRecord record;
  std::int32_t label = 0;
  float weight = 1;
  Batch batch;
  batch.image = {2, 2, 1};
  batch.window = {1, 2, 1};
  batch.target.kind = TargetSpec::Kind::image;
  batch.target.scale = 2;
  batch.count = 1;
  batch.pixels = pixels;
  batch.targets = targets;
  batch.records = &record;
  batch.labels = &label;
  batch.weights = &weight;
  record.y = 1;
  EXPECT_EQ(batch.target_bytes(), 16U);
  const std::uint64_t hash = hash_of_input(batch);
  targets[7] ^= 1;  // above the window
  EXPECT_EQ(hash_of_input(batch), hash);
  targets[8] ^= 1;
  EXPECT_NE(hash_of_input(batch), hash);
}

TEST(Sample, IsResidentUntilItsPixelsMayHaveChanged) {
  std::vector<std::uint8_t> slot(2 * 2 * 3);
  const auto fresh = [&] {
    Sample sample;
    sample.reset({}, {slot.data(), {2, 2, 3}});
    sample.set_image(sample.new_image({2, 2, 3}));
    EXPECT_FALSE(sample.resident());
    sample.set_resident();
    return sample;
  };
  Sample sample = fresh();
  EXPECT_EQ(sample.image().shape, (ImageShape{2, 2, 3}));
  EXPECT_NE(sample.image().data, nullptr);
  place_window(sample, {2, 2, 3});
  apply_pending(sample, {2, 2, 3});  // no record is pending
  sample.record.flip_x(2);
  EXPECT_TRUE(sample.resident());
  apply_pending(sample, {2, 2, 3});
  EXPECT_FALSE(sample.resident());

  sample = fresh();
  sample.change_pixels();
  EXPECT_FALSE(sample.resident());
  sample = fresh();
  sample.set_image(sample.new_image({2, 2, 3}));
  EXPECT_FALSE(sample.resident());
  sample = fresh();
  sample.reset({}, {});
  EXPECT_FALSE(sample.resident());
}

}  // namespace
}  // namespace millrace
