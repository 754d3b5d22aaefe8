#include "kernels/rearrange.h"

#include <algorithm>

#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

TEST(CopyChannels, JoinsAndSplitsMapsOfAnyLayoutAndType) {
  for_each_case([](const Case& c) {
    for (const std::int64_t first : {3, 16}) {
      const Layout other = c.layout == Layout::blocked ? Layout::channels_last : Layout::blocked;
      Tensor a(other, DataType::f32, 3, first, 4, 5), b(c, 3, 4, 5);
      Tensor joined(c.layout, c.type, 3, first + c.channels, 4, 5), back(c, 3, 4, 5);
      a.fill(1);
      b.fill(2);
      copy_channels(a.map, 0, joined.map, 0, first);
      copy_channels(b.map, 0, joined.map, first, c.channels);
      joined.expect_near([&](auto n, auto k, auto p) { return k < first ? a.at(n, k, p) : b.at(n, k - first, p); },
                         c.tolerance());
      copy_channels(joined.map, first, back.map, 0, c.channels);
      EXPECT_TRUE(back.same_bits(b));
    }
  });
}

TEST(Phases, AreImagesOfTheirOwnAndComeBack) {
  for_each_case([](const Case& c) {
    Tensor x(c, 2, 5, 7), back(c, 2, 5, 7), phases(c, 2 * 3 * 2, 2, 4);
    x.fill(1);
    to_phases(x.map, 3, 2, phases.map);
    phases.expect_near(
        [&](auto n, auto k, auto p) {
          const std::int64_t row = n / 2 % 3 + p / 4 * 3, column = n % 2 + p % 4 * 2;
          return row < 5 && column < 7 ? x.at(n / 6, k, row * 7 + column) : 0.0;
        },
        0);
    from_phases(phases.map, 3, 2, back.map);
    EXPECT_TRUE(back.same_bits(x));
    back.expect_padding_kept();
  });
}

// Seven images, three in a row: two places are empty.
TEST(SideBySide, ImagesHaveZerosBetweenThemAndComeBack) {
  for_each_case([](const Case& c) {
    for (const std::int64_t width : {13, 16}) {
      Tensor x(c, 7, 4, 3), back(c, 7, 4, 3), wide(c, 3, 4, width);
      x.fill(1);
      wide.fill(2);
      to_side_by_side(x.map, {3, 5}, wide.map);
      wide.expect_near(
          [&](auto n, auto k, auto p) {
            const std::int64_t row = p / width, column = p % width, image = n * 3 + column / 5;
            return column < 13 && column % 5 < 3 && image < 7 ? x.at(image, k, row * 3 + column % 5) : 0.0;
          },
          0);
      from_side_by_side(wide.map, {3, 5}, back.map);
      EXPECT_TRUE(back.same_bits(x));
      back.expect_padding_kept();
    }
  });
}

TEST(Plain, IsInTheOrderOfChannelsRowsColumnsAndComesBack) {
  for_each_case([](const Case& c) {
    Tensor x(c, 3, 4, 5), back(c, 3, 4, 5);
    x.fill(1);
    Tensor plain(Layout::channels_last, c.type, 3, c.channels * 20, 1, 1);
    to_plain(x.map, plain.map.data);
    x.each([&](auto n, auto k, auto p) { ASSERT_EQ(plain.at(n, k * 20 + p, 0), x.at(n, k, p)); });
    from_plain(plain.map.data, back.map);
    EXPECT_TRUE(back.same_bits(x));
    back.expect_padding_kept();
  });
}

}  // namespace
}  // namespace millrace::cpu
