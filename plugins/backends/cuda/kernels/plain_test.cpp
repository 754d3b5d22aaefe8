#include "plain.h"

#include "kernels_fixture.h"
#include "millrace/sample.h"

namespace millrace::cuda {
namespace {

template <class T>
using Plain = TypedElement<T>;
TYPED_TEST_SUITE(Plain, ElementTypes);

TYPED_TEST(Plain, ScaleWritesAddsAndMayBeInPlace) {
  for (const std::int64_t channels : {3, 20, 64}) {
    TestMap<TypeParam> x(5, channels), y(5, channels);
    x.fill(1);
    const TestMap<TypeParam> before = x;
    Scale<TypeParam> element{x.data(), y.data(), x.packs(), -1.5F, false};
    expect_names_its_memory(element, {x.bytes(), y.bytes()});
    y.expect_near([&](auto row, auto c) { return -1.5 * x.at(row, c); });
    element.add = true;
    expect_names_its_memory(element, {x.bytes(), y.bytes()});
    y.expect_near([&](auto row, auto c) { return -3 * x.at(row, c); });
    element.y = x.data();
    expect_names_its_memory(element, {x.bytes()});
    x.expect_near([&](auto row, auto c) { return -0.5 * before.at(row, c); });
  }
}

TYPED_TEST(Plain, AddMayBeInPlace) {
  TestMap<TypeParam> a(5, 20), b(5, 20), y(5, 20);
  a.fill(1);
  b.fill(2);
  const TestMap<TypeParam> before = a;
  Add<TypeParam> element{a.data(), b.data(), y.data(), a.packs()};
  expect_names_its_memory(element, {a.bytes(), b.bytes(), y.bytes()});
  y.expect_near([&](auto row, auto c) { return a.at(row, c) + b.at(row, c); });
  element.y = a.data();
  expect_names_its_memory(element, {a.bytes(), b.bytes()});
  a.expect_near([&](auto row, auto c) { return before.at(row, c) + b.at(row, c); });
}

// Parts of a map side by side, as in `concat`: whole packs, odd counts, two parts that end in one pack.
TYPED_TEST(Plain, CopyChannelsJoinsAndSplits) {
  for (const std::vector<std::int64_t>& parts : {std::vector<std::int64_t>{8, 24}, {3, 2}, {16, 3}, {3, 16}, {1, 1, 1, 7}, {5}}) {
    std::int64_t all = 0;
    for (const std::int64_t part : parts) all += part;
    TestMap<TypeParam> joined(7, all);
    std::int64_t begin = 0;
    std::vector<TestMap<TypeParam>> maps;
    for (const std::int64_t part : parts) {
      maps.emplace_back(7, part);
      maps.back().fill(static_cast<unsigned>(maps.size()));
      run_on_host(
          CopyChannels<TypeParam>{maps.back().data(), joined.data(), 7, part, maps.back().pitch(), 0, joined.pitch(), begin});
      begin += part;
    }
    joined.expect_padding();
    begin = 0;
    for (const TestMap<TypeParam>& map : maps) {
      map.each([&](auto row, auto c) { ASSERT_EQ(joined.at(row, begin + c), map.at(row, c)); });
      TestMap<TypeParam> back(7, map.channels());
      CopyChannels<TypeParam> element{joined.data(), back.data(), 7, map.channels(), joined.pitch(), begin, back.pitch(), 0};
      expect_names_its_memory(element, {joined.bytes(), back.bytes()});
      back.expect_near([&](auto row, auto c) { return map.at(row, c); }, 0);
      element.add = true;
      expect_names_its_memory(element, {joined.bytes(), back.bytes()});
      back.expect_near([&](auto row, auto c) { return 2 * map.at(row, c); }, 0);
      begin += map.channels();
    }
  }
}

TEST(CopyChannels, MovesWholePacksWhereItCan) {
  CopyChannels<float> element;
  element.rows = 3, element.channels = 24, element.from_pitch = 32, element.from_begin = 8, element.to_pitch = 24;
  EXPECT_EQ(element.size(), 9);
  element.from_begin = 4;
  EXPECT_EQ(element.size(), 72);
}

// The definition of backend "cpu", with the framework's generator.
bool is_dropped(std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint64_t sample, std::int64_t pixel,
                std::int64_t channel, double probability) {
  const std::uint64_t mixed = combine(combine(seed, step), layer);
  const Philox::Counter bits = Philox::block({static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                                              static_cast<std::uint32_t>(pixel), static_cast<std::uint32_t>(channel / 4)},
                                             {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)});
  return bits[static_cast<std::size_t>(channel % 4)] < static_cast<std::uint64_t>(probability * 4294967296.0);
}

TYPED_TEST(Plain, DropoutDecidesAsTheCpuDoes) {
  for (const double probability : {0.0, 0.1, 0.5, 1.0}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      constexpr std::int64_t kImages = 3, kPixels = 5;
      TestMap<TypeParam> x(kImages * kPixels, channels), y(kImages * kPixels, channels);
      x.fill(1, 3, 0.1);
      std::vector<StepScalars> scalars = {{(1ULL << 40) + 3, 0xfffffffeULL}};  // the samples' numbers exceed 2^32
      Dropout<TypeParam> element{x.data(), y.data(), kImages, kPixels, channels, 99, 7, probability, scalars.data()};
      expect_names_its_memory(element, {x.bytes(), y.bytes(), bytes_of(scalars)});
      const auto expected = [&](auto row, auto c) {
        const std::uint64_t sample = scalars[0].first_sample + static_cast<std::uint64_t>(row / kPixels);
        const bool dropped = is_dropped(99, scalars[0].step, 7, sample, row % kPixels, c, probability);
        return dropped ? 0.0 : 1 / (1 - probability);
      };
      y.expect_near([&](auto row, auto c) { return x.at(row, c) * expected(row, c); });
      element.add = true;
      expect_names_its_memory(element, {x.bytes(), y.bytes(), bytes_of(scalars)});
      y.expect_near([&](auto row, auto c) { return 2 * x.at(row, c) * expected(row, c); });
    }
  }
}

TYPED_TEST(Plain, DropoutOfChannelsAndSamplesDecidesAsTheCpuDoes) {
  for (const bool by_channel : {true, false}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      constexpr std::int64_t kImages = 7, kPixels = 5;
      TestMap<TypeParam> x(kImages * kPixels, channels), y(kImages * kPixels, channels);
      x.fill(1, 3, 0.1);
      std::vector<StepScalars> scalars = {{4, 5}};
      Dropout<TypeParam> element{x.data(), y.data(), kImages, kPixels, channels, 99, 7, 0.4, scalars.data()};
      element.by_channel = by_channel;
      element.by_pixel = false;
      expect_names_its_memory(element, {x.bytes(), y.bytes(), bytes_of(scalars)});
      const auto expected = [&](auto row, auto c) {
        const std::uint64_t sample = 5 + static_cast<std::uint64_t>(row / kPixels);
        return is_dropped(99, 4, 7, sample, 0, by_channel ? c : 0, 0.4) ? 0.0 : 1 / 0.6;
      };
      y.expect_near([&](auto row, auto c) { return x.at(row, c) * expected(row, c); });
    }
  }
}

TEST(Convert, RoundsAndWidens) {
  TestMap<float> from(5, 20), back(5, 20);
  TestMap<Bf16> to(5, 20);
  from.fill(1);
  expect_names_its_memory(FloatToBf16{from.data(), to.data(), from.packs()}, {from.bytes(), to.bytes()});
  to.expect_near([&](auto row, auto c) { return from.at(row, c); });
  expect_names_its_memory(Bf16ToFloat{to.data(), back.data(), from.packs()}, {to.bytes(), back.bytes()});
  back.expect_near([&](auto row, auto c) { return to.at(row, c); }, 0);
}

TEST(SetScalars, CarriesItsValues) {
  std::vector<StepScalars> out(1);
  expect_names_its_memory(SetScalars{{5, 6}, out.data()}, {bytes_of(out)});
  EXPECT_EQ(out[0].step, 5U);
  EXPECT_EQ(out[0].first_sample, 6U);
}

TEST(SumArrays, AddsInOrderAndInPlace) {
  for (int count = 1; count <= SumArrays::kMax; ++count) {
    std::vector<std::vector<float>> arrays;
    SumArrays element;
    element.count = count;
    element.elements = 13;
    std::vector<float> expected(13);
    for (int s = 0; s < count; ++s) {
      for (int i = 0; i < 13; ++i) expected[static_cast<std::size_t>(i)] += static_cast<float>(s * 100 + i);
      arrays.emplace_back(13);
      for (std::size_t i = 0; i < 13; ++i) arrays.back()[i] = static_cast<float>(s * 100) + static_cast<float>(i);
    }
    std::vector<std::span<std::byte>> memory;
    for (int s = 0; s < count; ++s) {
      element.sources[s] = arrays[static_cast<std::size_t>(s)].data();
      memory.push_back(bytes_of(arrays[static_cast<std::size_t>(s)]));
    }
    element.destination = arrays.back().data();
    expect_names_its_memory(element, memory);
    EXPECT_EQ(arrays.back(), expected);
  }
}

TYPED_TEST(Plain, AddLogitsBeginsAnewAndAdds) {
  for (const std::int64_t channels : {3, 8, 20}) {
    TestMap<TypeParam> logits(5, channels);
    TestMap<float> total(5, channels);
    logits.fill(1);
    AddLogits<TypeParam> element{logits.data(), total.data(), 5, 1, logits.row_packs(), 0.5F, false, true};
    expect_names_its_memory(element, {logits.bytes(), total.bytes()});
    total.expect_near([&](auto row, auto c) { return 0.5 * logits.at(row, c); });
    element.weight = 2;
    element.first = false;
    element.mirrored = true;  // does not change vectors
    expect_names_its_memory(element, {logits.bytes(), total.bytes()});
    total.expect_near([&](auto row, auto c) { return 2.5 * logits.at(row, c); });
  }
}

TYPED_TEST(Plain, AddLogitsMirrorsEachRowOfAMap) {
  constexpr std::int64_t kRows = 6;  // for two samples
  for (const std::int64_t width : {1, 4, 7}) {
    for (const std::int64_t channels : {2, 16, 20}) {
      TestMap<TypeParam> logits(kRows * width, channels);
      TestMap<float> total(kRows * width, channels);
      logits.fill(1);
      total.fill(2);
      const TestMap<float> before = total;
      const AddLogits<TypeParam> element{logits.data(), total.data(), kRows, width, logits.row_packs(), 0.25F, true, false};
      expect_names_its_memory(element, {logits.bytes(), total.bytes()});
      total.expect_near([&](auto row, auto c) {
        const std::int64_t x = row % width;
        return before.at(row, c) + 0.25 * logits.at(row - x + width - 1 - x, c);
      });
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
