#include "millrace/util/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "data/resample_kernels.h"
#include "millrace/detail/random.h"

namespace millrace::resample_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes pattern(ImageShape shape) {
  Bytes pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>((i * i * 7 + i * 13 + (i >> 3) * 5) % 251);
  return pixels;
}

Bytes resized(Bytes pixels, ImageShape from, ImageShape to) {
  Resampler resampler;
  Bytes out(to.bytes());
  resampler.resize({pixels.data(), from}, to, out.data());
  return out;
}

std::uint32_t checksum(const Bytes& bytes) {
  std::uint32_t sum = 0;
  for (const std::uint8_t value : bytes) sum = sum * 31 + value;
  return sum;
}

struct PillowCase {
  ImageShape from;
  Box box;
  std::int32_t height, width;
  std::uint32_t checksums[3];  // nearest, bilinear, bicubic
};

// Printed by tests/reference/pillow_resample.py with Pillow 9.4.0.
// clang-format off
constexpr PillowCase kPillow[] = {
    {{32, 32, 3}, {0, 0, 32, 32}, 17, 40, {0x3a7d7251, 0xb3a172bc, 0x0290342a}},
    {{37, 53, 3}, {0, 0, 53, 37}, 12, 9, {0x4e6d5e10, 0x7258bd2b, 0xd6c224b0}},
    {{480, 360, 3}, {0, 0, 360, 480}, 224, 224, {0xbc42e4c1, 0x6421b927, 0x04bcb65f}},
    {{8, 8, 1}, {0, 0, 8, 8}, 64, 3, {0xc6212b80, 0x15a86e0e, 0x209f20e7}},
    {{1, 9, 1}, {0, 0, 9, 1}, 5, 1, {0x095417a4, 0x0633352d, 0x061615ab}},
    {{20, 30, 3}, {0, 0, 30, 20}, 20, 11, {0xb21b5221, 0x481af681, 0x0ee330ac}},
    {{20, 30, 3}, {0, 0, 30, 20}, 7, 30, {0xc974d554, 0xad0b72c6, 0xe6275ef8}},
    {{300, 2, 1}, {0, 0, 2, 300}, 3, 200, {0x70dd5180, 0xf76e7cb7, 0x068f96b0}},
    {{200, 250, 3}, {10, 20, 110, 180}, 64, 64, {0xedbd097d, 0x950986a9, 0x24f7d55a}},
    {{90, 120, 3}, {3.25F, 7.5F, 90.75F, 80.125F}, 48, 56, {0x4eb9e67b, 0xe1ceccf3, 0x8000cb01}},
    {{33, 47, 1}, {0, 0.5F, 46.5F, 33}, 10, 70, {0x48782754, 0xd7624cc9, 0x4e843f3b}},
    {{5, 4, 3}, {0, 0, 4, 5}, 31, 29, {0x4c45b48e, 0xa0db20c1, 0x0c347657}},
    {{64, 64, 4}, {1, 1, 63, 50}, 20, 20, {0x3315c520, 0x8aa81506, 0x69c0c25d}},
    {{120, 160, 3}, {8.5F, 0, 152.5F, 120}, 120, 160, {0x82750e01, 0x4f87e522, 0x9a2c1b6e}},
};
// clang-format on

TEST(Resampler, GivesPillowsBytesWithEveryFilterAndBox) {
  Resampler resampler;
  for (const PillowCase& c : kPillow) {
    Bytes pixels = pattern(c.from);
    const ImageShape to{c.height, c.width, c.from.channels};
    for (const ResampleFilter filter : {ResampleFilter::nearest, ResampleFilter::bilinear, ResampleFilter::bicubic}) {
      Bytes out(to.bytes());
      resampler.resize(rows_of({pixels.data(), c.from}), c.box, filter, to, out.data());
      EXPECT_EQ(checksum(out), c.checksums[static_cast<int>(filter)])
          << to_string(c.from) << " to " << to_string(to) << ", filter " << static_cast<int>(filter);
    }
  }
}

TEST(Resampler, ReadsNothingBesideThePartItIsGiven) {
  const ImageShape whole{40, 50, 3}, part{21, 17, 3}, to{9, 11, 3};
  const Bytes big = pattern(whole);
  const std::size_t stride = 150, at = 5 * stride + 8 * 3;
  Bytes small;
  for (std::size_t row = 0; row < 21; ++row)
    small.insert(small.end(), big.begin() + static_cast<int>(at + row * stride),
                 big.begin() + static_cast<int>(at + row * stride + 51));
  for (const ResampleFilter filter : {ResampleFilter::nearest, ResampleFilter::bilinear, ResampleFilter::bicubic}) {
    Resampler resampler;
    Bytes expected(to.bytes()), found(to.bytes());
    const Box box{0, 0, 17, 21};
    resampler.resize(rows_of({small.data(), part}), box, filter, to, expected.data());
    resampler.resize({big.data() + at, part, stride}, box, filter, to, found.data());
    EXPECT_EQ(found, expected);
  }
}

// Values read outside its memory would have a weight of 0 and change no byte: only the sanitizers' build detects that. A
// Resampler that keeps its tables and buffer between images gives the same bytes as a new one.
TEST(Resampler, StaysInItsMemoryForAnyBox) {
  Draw draw(7, {}, 1);
  Resampler used;
  for (int round = 0; round < 400; ++round) {
    const auto extent = [&] { return static_cast<std::int32_t>(draw.integer(1, draw.chance(0.2) ? 200 : 40)); };
    const ImageShape from{extent(), extent(), static_cast<std::int32_t>(draw.integer(1, 4))};
    const ImageShape to{extent(), extent(), from.channels};
    const auto edges = [&](std::int32_t most) {
      const auto low = draw.chance(0.3) ? 0.0 : draw.uniform(0, most - 0.5);
      const auto high = draw.chance(0.3) ? most : std::max(low + 0.25, draw.uniform(low, most));
      return std::pair(static_cast<float>(low), static_cast<float>(high));
    };
    const auto [left, right] = edges(from.width);
    const auto [top, bottom] = edges(from.height);
    const Bytes pixels = pattern(from);
    for (const ResampleFilter filter : {ResampleFilter::nearest, ResampleFilter::bilinear, ResampleFilter::bicubic}) {
      const PixelRows rows{pixels.data(), from, static_cast<std::size_t>(from.width * from.channels)};
      Bytes expected(to.bytes()), found(to.bytes());
      Resampler().resize(rows, {left, top, right, bottom}, filter, to, expected.data());
      used.resize(rows, {left, top, right, bottom}, filter, to, found.data());
      ASSERT_EQ(found, expected) << "round " << round << ": " << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(Resampler, AveragesEveryPixelWhenItShrinks) {
  // A fine checkerboard becomes grey; without antialiasing it would stay black and white.
  const ImageShape from{64, 64, 1};
  Bytes board(from.bytes());
  for (std::size_t i = 0; i < board.size(); ++i) board[i] = (i / 64 + i) % 2 == 0 ? 0 : 255;
  for (const std::uint8_t value : resized(board, from, {7, 7, 1})) EXPECT_NEAR(value, 127.5, 4);
}

TEST(Resampler, KeepsAFlatColourInEveryChannel) {
  for (const std::int32_t channels : {1, 2, 3, 4}) {
    const ImageShape from{13, 7, channels};
    Bytes flat(from.bytes());
    for (std::size_t i = 0; i < flat.size(); ++i)
      flat[i] = static_cast<std::uint8_t>(60 * (i % static_cast<std::size_t>(channels)) + 70);
    for (const ImageShape to : {ImageShape{5, 20, channels}, ImageShape{40, 2, channels}}) {
      const Bytes out = resized(flat, from, to);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], flat[i % static_cast<std::size_t>(channels)]);
    }
  }
}

TEST(Resampler, InterpolatesLinearlyWhenItEnlarges) {
  EXPECT_EQ(resized({0, 100}, {1, 2, 1}, {1, 4, 1}), (Bytes{0, 25, 75, 100}));
}

TEST(Resampler, NearestMixesNothing) {
  const ImageShape from{2, 2, 1}, to{3, 5, 1};
  Bytes labels = {7, 200, 31, 4}, out(to.bytes());
  Resampler().resize(rows_of({labels.data(), from}), {0, 0, 2, 2}, ResampleFilter::nearest, to, out.data());
  EXPECT_EQ(out, (Bytes{7, 7, 200, 200, 200, 31, 31, 4, 4, 4, 31, 31, 4, 4, 4}));
}

// Weights like those in tables: sums of about one, some below zero.
std::vector<std::int32_t> some_weights(Draw& draw, int outputs, int taps) {
  std::vector<std::int32_t> weights;
  for (int i = 0; i < outputs * taps; ++i) {
    const std::int64_t most = (std::int64_t{1} << kWeightBits) * 3 / 2 / taps;
    weights.push_back(static_cast<std::int32_t>(draw.integer(-most / 4, most)));
  }
  weights[0] = 1 << kWeightBits;  // the largest, where it is the only one
  std::fill(weights.begin() + 1, weights.begin() + taps, 0);
  return weights;
}

std::vector<std::int32_t> packed(const ResampleKernels& kernels, const std::vector<std::int32_t>& weights) {
  std::vector<std::int32_t> result(weights.size());
  for (std::size_t i = 0; i < weights.size(); i += 4) kernels.pack(weights.data() + i, result.data() + i);
  return result;
}

TEST(ResampleKernels, AllGiveTheSameBytes) {
  ASSERT_STREQ(resample_kernels().back().name, "plain");
  Draw draw(3, {}, 1);
  for (int round = 0; round < 200; ++round) {
    const int channels = static_cast<int>(draw.integer(1, 4)), taps = 4 * static_cast<int>(draw.integer(1, 3));
    const int width = static_cast<int>(draw.integer(taps, 60)), rows = static_cast<int>(draw.integer(1, 9));
    const int to = static_cast<int>(draw.integer(1, 40));
    const ImageShape shape{rows, width, channels};
    Bytes pixels(shape.bytes());
    for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(draw.chance(0.2) ? 255 : draw.integer(0, 255));
    std::vector<int> first;
    for (int x = 0; x < to; ++x) first.push_back(static_cast<int>(draw.integer(0, width - taps)));
    first.back() = width - taps;  // the edge
    const auto weights = some_weights(draw, to, taps);
    const std::size_t bytes = static_cast<std::size_t>(to * channels), stride = bytes + kRowPadding;
    Bytes expected;
    for (const ResampleKernels& kernels : resample_kernels()) {
      const auto parts = packed(kernels, weights);
      Bytes narrow(static_cast<std::size_t>(rows) * stride), flat(bytes), all;
      kernels.narrow({pixels.data(), static_cast<std::size_t>(width * channels), rows, width, channels, first.data(),
                      weights.data(), parts.data(), taps, to, narrow.data(), stride});
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
        all.insert(all.end(), narrow.data() + row * stride, narrow.data() + row * stride + bytes);
      if (rows >= taps) {
        kernels.flatten({all.data(), bytes, weights.data(), parts.data(), taps, bytes, flat.data()});
        all.insert(all.end(), flat.begin(), flat.end());
      }
      if (&kernels == &resample_kernels().front()) expected = all;
      ASSERT_EQ(all, expected) << kernels.name << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace millrace::resample_test
