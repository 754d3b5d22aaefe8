// Summaries of training images in weights.
#include "prepare/image_summary.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

ImageFacts facts(int height, int width, int channels, double mean = 0.5, int bits = 8) {
  return {.format = "PNG", .height = height, .width = width, .channels = channels, .bits = bits, .mean = mean, .deviation = 0.2};
}

TEST(ImageSummary, NamesInWhatAnImageIsUnlikeThoseOfTheTraining) {
  ImageSummary grey;
  for (int i = 0; i < 10; ++i) grey.add(facts(480, 640, 1, 0.4 + 0.01 * i));
  EXPECT_TRUE(grey.differences(facts(480, 640, 1, 0.45)).empty());
  EXPECT_TRUE(grey.differences(facts(480, 640, 1, 0.35)).empty()) << "a little darker";
  EXPECT_EQ(grey.differences(facts(1080, 1920, 3)),
            (std::vector<std::string>{"channels (3, in training 1)", "height (1080, in training 480)",
                                      "width (1920, in training 640)", "aspect (1.778, in training 1.333)"}));
  EXPECT_EQ(grey.differences(facts(77, 333, 1)).size(), 3U);
  EXPECT_EQ(grey.differences(facts(640, 480, 1)).size(), 3U) << "upright, where all lay on their side";
  EXPECT_EQ(grey.differences(facts(480, 640, 1, 0.45, 16)), std::vector<std::string>{"bits (16, in training 8)"});
  EXPECT_EQ(grey.differences(facts(480, 640, 1, 0.05)), std::vector<std::string>{"mean (0.05, in training 0.4 to 0.49)"});
}

TEST(ImageSummary, TakesSizesSomewhatOutsideWhereThoseOfTheTrainingDiffer) {
  ImageSummary photographs;
  photographs.add(facts(300, 400, 3));
  photographs.add(facts(1200, 1600, 3));
  EXPECT_TRUE(photographs.differences(facts(1500, 2000, 3)).empty());
  EXPECT_TRUE(photographs.differences(facts(240, 320, 3)).empty());
  EXPECT_EQ(photographs.differences(facts(3000, 4000, 3)).size(), 2U);
}

TEST(ImageSummary, IsReadAsItWasWritten) {
  ImageSummary first, second, none;
  first.add(facts(30, 40, 3));
  second.add(facts(50, 45, 1, 0.75, 16));
  first.add(second);
  first.add(none);
  const auto read = image_summary_from(metadata_of(first));
  ASSERT_TRUE(read);
  EXPECT_EQ(metadata_of(*read), metadata_of(first));
  EXPECT_EQ(read->looked_at, 2U);
  EXPECT_EQ(
      read->text(),
      "height 30 to 50, width 40 to 45, aspect 0.9 to 1.333, mean 0.5 to 0.75, deviation 0.2, channels 1 and 3, bits 8 and 16");
  EXPECT_EQ(read->height.least, 30);
  EXPECT_EQ(read->height.most, 50);
  EXPECT_EQ(read->channels, (std::set<int>{1, 3}));
  EXPECT_EQ(read->bits, (std::set<int>{8, 16}));
}

TEST(ImageSummary, IsNothingWhereMetadataAreAnotherTools) {
  ImageSummary summary;
  summary.add(facts(30, 40, 3));
  const std::string good = metadata_of(summary).at("images");
  const auto read = [](std::string text) { return image_summary_from({{"images", std::move(text)}}); };
  EXPECT_TRUE(read(good));
  EXPECT_FALSE(image_summary_from({}));
  for (const char* text : {"", "1000 photographs", "looked_at = 0", "looked_at = 5\nheight = 3"})
    EXPECT_FALSE(read(text)) << text;
  EXPECT_FALSE(read(good + std::string(5000, '\n')));
  std::string negative = good;
  negative.replace(negative.find("channels = [3]"), 14, "channels = [-3]");
  EXPECT_FALSE(read(negative));
}

}  // namespace
}  // namespace millrace
