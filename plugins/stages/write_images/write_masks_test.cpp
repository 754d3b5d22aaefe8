#include "write_masks.h"

#include "millrace/backend/backend.h"
#include "pictures_fixture.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

using Pixels = std::vector<std::uint8_t>;

Value text(const char* value) { return Value(std::string(value)); }

// Three classes of 2 x 3 pixels.
class WriteMasksTest : public testkit::PredictionsTest {
 protected:
  WriteMasksTest() : PredictionsTest({2, 3, 3}, {3, 2, 3}) {}

  // Outputs with these most probable classes.
  static std::vector<float> outputs(const Pixels& classes) {
    std::vector<float> values(3 * classes.size());
    for (std::size_t place = 0; place < classes.size(); ++place) values[classes[place] * classes.size() + place] = 5;
    return values;
  }
  Pixels written(const std::string& name = "masks/0.png") const { return testkit::read_png(folder_ / name).pixels; }
};

const Pixels kClasses = {0, 1, 2, 2, 0, 1};

TEST_F(WriteMasksTest, WritesClassNumbers) {
  const auto harness = made<WriteMasks>();
  EXPECT_TRUE(write(*harness, share({outputs(kClasses), outputs({2, 2, 2, 0, 0, 0})})).empty());
  EXPECT_EQ(written(), kClasses);
  EXPECT_EQ(written("masks/1.png"), (Pixels{2, 2, 2, 0, 0, 0}));
}

TEST_F(WriteMasksTest, WritesTheValuesOfLabelImages) {
  const auto values = [&](std::initializer_list<std::pair<const char*, Value>> keys) {
    const auto harness = made<WriteMasks>(keys);
    EXPECT_TRUE(write(*harness, share({outputs(kClasses)})).empty());
    return written();
  };
  const auto refused = [&] { return testkit::error_of([&] { made<WriteMasks>({{"picture", text("labels")}}); }).message(); };
  EXPECT_MESSAGE(refused());
  context_.target.kind = TargetSpec::Kind::classes;
  context_.target.classes.fill(255);
  context_.target.classes[7] = context_.target.classes[9] = 0;
  context_.target.classes[4] = 1;
  EXPECT_NE(refused().find("and 2 are known"), std::string::npos) << refused();
  context_.target.classes[30] = 2;
  EXPECT_EQ(values({{"picture", text("labels")}}), (Pixels{7, 4, 30, 30, 7, 4}));
  const Array own = {Value(1), Value(2), Value(3)};
  EXPECT_EQ(values({{"picture", text("labels")}, {"labels", Value(own)}}), (Pixels{1, 2, 3, 3, 1, 2}));
}

TEST_F(WriteMasksTest, TakesTheLowerOfEqualClasses) {
  const auto harness = made<WriteMasks>();
  EXPECT_TRUE(write(*harness, share({std::vector<float>(18, 1)})).empty());
  EXPECT_EQ(written(), Pixels(6, 0));
}

TEST_F(WriteMasksTest, WritesColoursAsPaletteOfTheSameNumbers) {
  const auto harness = made<WriteMasks>({{"picture", text("colours")}});
  EXPECT_TRUE(write(*harness, share({outputs(kClasses)})).empty());
  const testkit::Picture picture = testkit::read_png(folder_ / "masks/0.png");
  ASSERT_TRUE(picture.indexed);
  EXPECT_EQ(picture.pixels, kClasses);
  EXPECT_EQ(Pixels(picture.palette.begin(), picture.palette.begin() + 9), (Pixels{0, 0, 0, 128, 0, 0, 0, 128, 0}));
  EXPECT_EQ(Pixels(picture.palette.end() - 3, picture.palette.end()), (Pixels{224, 224, 192})) << "nothing is known";
}

TEST_F(WriteMasksTest, TakesColoursThatAreWritten) {
  Array colours;
  for (const char* colour : {"#102030", "#ffFF00", "#000001"}) colours.push_back(text(colour));
  const auto harness = made<WriteMasks>({{"picture", text("colours")}, {"colours", Value(colours)}});
  EXPECT_TRUE(write(*harness, share({outputs(kClasses)})).empty());
  const Pixels palette = testkit::read_png(folder_ / "masks/0.png").palette;
  EXPECT_EQ(Pixels(palette.begin(), palette.begin() + 9), (Pixels{0x10, 0x20, 0x30, 255, 255, 0, 0, 0, 1}));
}

TEST_F(WriteMasksTest, TakesColoursOfTheSourceUnlessSomeAreWritten) {
  context_.colours = {"#010203", "#040506", "#070809"};
  const auto palette = [&](std::initializer_list<std::pair<const char*, Value>> keys) {
    const auto harness = made<WriteMasks>(keys);
    EXPECT_TRUE(write(*harness, share({outputs(kClasses)})).empty());
    const Pixels all = testkit::read_png(folder_ / "masks/0.png").palette;
    return Pixels(all.begin(), all.begin() + 9);
  };
  EXPECT_EQ(palette({{"picture", text("colours")}}), (Pixels{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  Array own;
  for (const char* colour : {"#102030", "#ffff00", "#000001"}) own.push_back(text(colour));
  EXPECT_EQ(palette({{"picture", text("colours")}, {"colours", Value(own)}}), (Pixels{0x10, 0x20, 0x30, 255, 255, 0, 0, 0, 1}));
}

// The network saw the right half of an image of twice its height and four times its width.
TEST_F(WriteMasksTest, WritesAtTheSizeOfTheSource) {
  const auto harness = made<WriteMasks>({{"size", text("source")}});
  const Ref<Predictions> one = share({outputs(kClasses)});
  one->samples[0].source = {4, 12, {2, 0, 6.5, 0, 2, 0.5}};
  EXPECT_TRUE(write(*harness, one).empty());
  const testkit::Picture picture = testkit::read_png(folder_ / "masks/0.png");
  EXPECT_EQ(picture.height, 4);
  EXPECT_EQ(picture.width, 12);
  const Pixels upper = {255, 255, 255, 255, 255, 255, 0, 0, 1, 1, 2, 2}, lower = {255, 255, 255, 255, 255, 255, 2, 2, 0, 0, 1, 1};
  Pixels expected;
  for (const Pixels* row : {&upper, &upper, &lower, &lower}) expected.insert(expected.end(), row->begin(), row->end());
  EXPECT_EQ(picture.pixels, expected);
}

TEST_F(WriteMasksTest, NamesASampleWhosePlaceIsNotKnown) {
  const auto harness = made<WriteMasks>({{"size", text("source")}});
  const std::vector<Error> errors = write(*harness, share({outputs(kClasses)}));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_MESSAGE(errors[0].message());
}

TEST_F(WriteMasksTest, AMapOfAnotherSizeCoversTheInput) {
  network_.layers.back().output = {3, 1, 3};
  context_.window = network_.input = {2, 6, 3};
  const auto harness = made<WriteMasks>();
  EXPECT_TRUE(write(*harness, share({outputs({2, 0, 1})})).empty());
  EXPECT_EQ(written(), (Pixels{2, 2, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1}));
}

// A margin of one pixel around an image of half its height and width.
TEST_F(WriteMasksTest, AMarginAroundTheImageShowsNowhere) {
  network_.layers.back().output = {3, 4, 4};
  context_.window = network_.input = {4, 4, 3};
  const Pixels classes = {2, 2, 2, 2, 2, 0, 1, 2, 2, 1, 0, 2, 2, 2, 2, 2};
  const auto pictures = [&](const char* picture) {
    const auto harness = made<WriteMasks>({{"size", text("source")}, {"picture", text(picture)}, {"opacity", Value(0.0)}});
    const Ref<Predictions> one = share({outputs(classes)});
    one->samples[0].source = {4, 4, {2, 0, -1.5, 0, 2, -1.5}};
    one->batch = testkit::make_batch(1, {4, 4, 3});
    std::uint8_t* const pixels = one->batch->change_pixels();
    for (std::size_t i = 0; i < 16; ++i) std::fill_n(pixels + 3 * i, 3, static_cast<std::uint8_t>(classes[i] == 2 ? 0 : 200));
    EXPECT_TRUE(write(*harness, one).empty());
    return written();
  };
  EXPECT_EQ(pictures("ids"), (Pixels{0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(pictures("overlay"), Pixels(48, 200));
}

TEST_F(WriteMasksTest, RefusesAMapThatShowsMoreThanTheInput) {
  const auto mistake = [&](Shape map) {
    network_.layers.back().output = std::move(map);
    return testkit::error_of([&] { made<WriteMasks>(); }).message();
  };
  EXPECT_MESSAGE(mistake({3, 2, 5}));
  network_.layers.back().output = {3, 4, 6};
  made<WriteMasks>();  // twice the size
}

// The first slot belongs to another replica, and the record mirrors the image.
TEST_F(WriteMasksTest, LaysColoursOverTheImageAsTheNetworkSawIt) {
  CompileRequest request;
  const StageType type = StageTypeAccess::make<WriteMasks>();
  type.request(testkit::table({}), context_, request);
  EXPECT_FALSE(request.needs_image);
  type.request(testkit::table({{"picture", text("overlay")}}), context_, request);
  EXPECT_TRUE(request.needs_image);
  const auto harness = made<WriteMasks>({{"picture", text("overlay")}, {"opacity", Value(0.25)}});
  const Ref<Predictions> one = share({outputs(kClasses)});
  one->batch = testkit::make_batch(2, {2, 3, 3});
  one->first_slot = 1;
  std::uint8_t* const pixels = one->batch->change_pixels() + 18;
  for (std::size_t i = 0; i < 18; ++i) pixels[i] = static_cast<std::uint8_t>(40 * (i / 3));
  one->batch->records[1].flip_x(3);
  EXPECT_TRUE(write(*harness, one).empty());
  EXPECT_EQ(written(), (Pixels{60, 60, 60, 62, 30, 30, 0, 32, 0, 150, 182, 150, 120, 120, 120, 122, 90, 90}));
}

TEST_F(WriteMasksTest, LaysColoursOverGreyImages) {
  context_.window.channels = network_.input.channels = 1;
  const auto harness = made<WriteMasks>({{"picture", text("overlay")}, {"opacity", Value(0.0)}});
  const Ref<Predictions> one = share({outputs(kClasses)});
  one->batch = testkit::make_batch(1, {2, 3, 1});
  for (std::uint8_t i = 0; i < 6; ++i) one->batch->change_pixels()[i] = i;
  EXPECT_TRUE(write(*harness, one).empty());
  EXPECT_EQ(written(), (Pixels{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5}));
}

TEST_F(WriteMasksTest, RefusesWhatIsNoMapOfClassesAndWrongColours) {
  const auto mistake = [&](const std::vector<const char*>& written_colours) {
    Array colours;
    for (const char* colour : written_colours) colours.push_back(text(colour));
    return testkit::error_of([&] { made<WriteMasks>({{"colours", Value(colours)}}); }).message();
  };
  EXPECT_MESSAGE(mistake({"#000000"}));
  EXPECT_MESSAGE(mistake({"#000000", "#00000g", "#000000"}));
  network_.layers.back().output = {3};
  EXPECT_MESSAGE(mistake({}));
}

}  // namespace
}  // namespace millrace
