#include "class_overlay.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace {
namespace {

TEST(ClassOverlay, ClassesHaveColoursOfTheirOwn) {
  std::set<drawing::Colour> colours;
  for (std::size_t i = 0; i < 64; ++i) colours.insert(class_colour(i));
  EXPECT_EQ(colours.size(), 64U);
}

TEST(ClassOverlay, LaysClassesOverAllButIgnoredPixels) {
  std::uint8_t pixels[] = {100, 100, 100, 100, 100, 100}, classes[] = {0, 255};
  lay_over({pixels, {1, 2, 3}}, {classes, {1, 2, 1}}, 255);
  const drawing::Colour colour = class_colour(0);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(pixels[c], (100 + colour[c]) / 2);
  EXPECT_EQ(pixels[3], 100);
}

}  // namespace
}  // namespace millrace
