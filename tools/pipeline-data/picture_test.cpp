#include "picture.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
#include <set>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr Colour kWhite = {255, 255, 255}, kBlack = {0, 0, 0};

TEST(Picture, ShowsAnImageWhereItIsPut) {
  std::uint8_t grey[] = {1, 2, 3, 4}, colours[] = {10, 20, 30};
  Picture picture(4, 5, kWhite);
  picture.image(1, 2, {grey, {2, 2, 1}});
  picture.image(3, 4, {colours, {1, 1, 3}});
  EXPECT_EQ(picture.at(1, 2), (Colour{1, 1, 1}));
  EXPECT_EQ(picture.at(2, 3), (Colour{4, 4, 4}));
  EXPECT_EQ(picture.at(3, 4), (Colour{10, 20, 30}));
  EXPECT_EQ(picture.at(0, 0), kWhite);
}

TEST(Picture, LosesWhatLiesBeyondItsEdges) {
  Picture picture(3, 3, kWhite);
  picture.rectangle(-5, -5, 100, 100, kBlack);
  picture.text(-3, 1, "edge", kWhite);
  picture.text(2, -9, "edge", kWhite);
  EXPECT_EQ(picture.pixels().size(), 27U);
}

TEST(Picture, DrawsEveryLetterDifferently) {
  std::set<std::string> seen;
  const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789 .,:-_+/()%'&*";
  for (const char letter : letters) {
    Picture picture(7, 5, kWhite);
    picture.text(0, 0, std::string(1, letter), kBlack);
    seen.emplace(picture.pixels().begin(), picture.pixels().end());
  }
  EXPECT_EQ(seen.size(), letters.size());
}

TEST(Picture, ShortensTextToItsWidth) {
  EXPECT_EQ(text_width("abc"), 17);
  EXPECT_EQ(shortened("abc", 17), "abc");
  EXPECT_EQ(shortened("automobile", 29), "aut..");
  EXPECT_LE(text_width(shortened("automobile", 40)), 40);
}

TEST(Picture, ClassesHaveColoursOfTheirOwn) {
  std::set<Colour> colours;
  for (std::size_t i = 0; i < 64; ++i) colours.insert(class_colour(i));
  EXPECT_EQ(colours.size(), 64U);
}

TEST(Picture, LaysClassesOverAllButIgnoredPixels) {
  std::uint8_t pixels[] = {100, 100, 100, 100, 100, 100}, classes[] = {0, 255};
  lay_over({pixels, {1, 2, 3}}, {classes, {1, 2, 1}}, 255);
  const Colour colour = class_colour(0);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(pixels[c], (100 + colour[c]) / 2);
  EXPECT_EQ(pixels[3], 100);
}

TEST(Picture, ItsFileHoldsItsPixels) {
  Picture picture(3, 4, kWhite);
  picture.rectangle(1, 1, 1, 2, {1, 2, 3});
  const std::string path = testing::TempDir() + "picture_test.png";
  picture.write_png(path);
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&info, path.c_str()), 0);
  info.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(info));
  ASSERT_NE(png_image_finish_read(&info, nullptr, pixels.data(), 0, nullptr), 0);
  EXPECT_EQ(pixels, picture.pixels());
  std::remove(path.c_str());
  EXPECT_THROW(picture.write_png("/no/such/folder/a.png"), Error);
}

}  // namespace
}  // namespace millrace
