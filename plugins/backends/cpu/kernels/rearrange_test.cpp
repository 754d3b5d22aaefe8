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

TEST(Dropout, DropsTheSameElementsInEveryLayoutAndSplit) {
  const DropoutKey key{.seed = 1, .step = 2, .layer = 3, .first_sample = 0, .probability = 0.3};
  const auto dropped = [&](const Case& c, const DropoutKey& with, std::int64_t rows) {
    Tensor x(c, rows, 6, 7), y(c, rows, 6, 7);
    x.each([&](auto n, auto k, auto p) { x.set(n, k, p, 1); });
    dropout(with, x.map, y.map);
    std::vector<bool> result;
    y.each([&](auto n, auto k, auto p) { result.push_back(y.at(n, k, p) == 0); });
    y.expect_near([&](auto n, auto k, auto p) { return y.at(n, k, p) == 0 ? 0 : 1 / 0.7; }, c.tolerance());
    return result;
  };
  const Case first{kernels(), Layout::blocked, DataType::f32, 24}, second{kernels(), Layout::channels_last, DataType::bf16, 24};
  const std::vector<bool> whole = dropped(first, key, 4);
  EXPECT_EQ(whole, dropped(second, key, 4));
  DropoutKey tail = key;
  tail.first_sample = 2;
  const std::vector<bool> half = dropped(first, tail, 2);
  EXPECT_TRUE(std::equal(half.begin(), half.end(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2)));
  const double share = static_cast<double>(std::count(whole.begin(), whole.end(), true)) / static_cast<double>(whole.size());
  EXPECT_NEAR(share, 0.3, 0.03);  // 4032 elements: four deviations are 0.029
  for (const bool other_step : {false, true}) {
    DropoutKey other = key;
    (other_step ? other.step : other.seed) = 9;
    EXPECT_NE(whole, dropped(first, other, 4));
  }
}

// Values of the same unit have the draw of its first channel and pixel; units differ.
TEST(Dropout, DropsWholeChannelsOrSamples) {
  constexpr std::int64_t kSamples = 200;
  for_each_case([](const Case& c) {
    for (const bool by_channel : {true, false}) {
      DropoutKey key{.seed = 1, .step = 2, .layer = 3, .probability = 0.3, .by_channel = by_channel, .by_pixel = false};
      Tensor x(c, kSamples, 2, 3), y(c, kSamples, 2, 3);
      x.fill(1, 3, 0.1);
      dropout(key, x.map, y.map);
      const auto is_dropped = [&](std::int64_t n, std::int64_t channel) { return y.at(n, by_channel ? channel : 0, 0) == 0; };
      y.expect_near([&](auto n, auto k, auto p) { return is_dropped(n, k) ? 0 : x.at(n, k, p) / 0.7; }, c.tolerance());
      std::int64_t count = 0;
      const std::int64_t units = kSamples * (by_channel ? c.channels : 1);
      for (std::int64_t unit = 0; unit < units; ++unit) count += is_dropped(unit % kSamples, unit / kSamples) ? 1 : 0;
      const double deviation = std::sqrt(0.3 * 0.7 / static_cast<double>(units));
      EXPECT_NEAR(static_cast<double>(count) / static_cast<double>(units), 0.3, 4 * deviation);

      key.first_sample = kSamples / 2;  // the second of two replicas
      Tensor half(c, kSamples / 2, 2, 3), dropped_half(c, kSamples / 2, 2, 3);
      half.each([&](auto n, auto k, auto p) { half.set(n, k, p, x.at(n + kSamples / 2, k, p)); });
      dropout(key, half.map, dropped_half.map);
      dropped_half.each([&](auto n, auto k, auto p) { ASSERT_EQ(dropped_half.at(n, k, p), y.at(n + kSamples / 2, k, p)); });
      dropout(key, half.map, half.map);
      half.each([&](auto n, auto k, auto p) { ASSERT_EQ(half.at(n, k, p), dropped_half.at(n, k, p)) << "in place"; });
    }
  });
}

}  // namespace
}  // namespace millrace::cpu
