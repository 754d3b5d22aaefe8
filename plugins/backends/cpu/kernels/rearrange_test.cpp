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

}  // namespace
}  // namespace millrace::cpu
