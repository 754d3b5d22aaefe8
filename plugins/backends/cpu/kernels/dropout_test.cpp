#include "kernels/dropout.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

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
