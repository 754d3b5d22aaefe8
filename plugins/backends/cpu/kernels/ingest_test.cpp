#include "kernels/ingest.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels_fixture.h"
#include "millrace/kernels/noise.h"

namespace millrace::cpu {
namespace {

constexpr std::uint32_t kCount = 24;

// A batch with random pixels and records; windows smaller and larger than the image.
struct Pixels {
  Pixels(ImageShape image, ImageShape window) : samples(kCount), pixels(kCount * image.bytes()), records(kCount) {
    std::mt19937 generator(5);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
    for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(draw(0, 255));
    for (AugmentationRecord& record : records) {
      record.border = static_cast<Border>(draw(0, 2));
      for (std::uint8_t& fill : record.fill) fill = static_cast<std::uint8_t>(draw(0, 255));
      if (draw(0, 1) == 1) record.flip_x(window.width);
      if (draw(0, 3) == 1) record.flip_y(window.height);
      record.translate(draw(-4, 4), draw(-4, 4));
    }
    batch.image = image;
    batch.window = window;
    batch.samples = samples;
    batch.pixels = pixels.data();
    batch.records = records.data();
  }
  std::vector<Sample> samples;
  std::vector<std::uint8_t> pixels;
  std::vector<AugmentationRecord> records;
  Batch batch;
};

// The view by the same reference: the window, transformed by a second record.
std::vector<std::uint8_t> reference(Pixels& p, std::uint32_t slot, const View* view) {
  std::vector<std::uint8_t> seen(p.batch.window.bytes()), twice(seen.size());
  const Image stored{p.pixels.data() + slot * p.batch.image.bytes(), p.batch.image};
  apply_record(p.records[slot], stored, p.batch.window, seen.data());
  if (view == nullptr) return seen;
  AugmentationRecord second;
  second.border = view->border;
  for (int c = 0; c < 4; ++c) second.fill[c] = p.records[slot].fill[c];
  second.translate(view->dx, view->dy);
  if (view->flip_x) second.flip_x(p.batch.window.width);
  apply_record(second, Image{seen.data(), p.batch.window}, p.batch.window, twice.data());
  return twice;
}

struct Plane {
  DataType type;
  bool channels_last;
  std::int64_t channels;
};

void expect_matches(Pixels& p, const View* view, const Plane& plane) {
  const ImageShape window = p.batch.window;
  const PixelTable table({0.1, 0.5, 0.3, 0.2}, {0.5, 0.25, 1, 2});
  const std::int64_t area = window.height * window.width;
  InputPlane out{nullptr, plane.type, plane.channels, plane.channels * area, area, window.width, 1};
  if (plane.channels_last) out.stride_c = 1, out.stride_h = window.width * plane.channels, out.stride_w = plane.channels;
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(kCount * out.stride_n) * size_of(plane.type), 0xff);
  out.data = memory.data();
  constexpr std::uint32_t kBegin = 3, kUsed = 20;
  ingest(p.batch, kBegin, kUsed, view, table, out);
  for (std::uint32_t n = 0; n < kUsed; ++n) {
    const std::vector<std::uint8_t> expected = reference(p, kBegin + n, view);
    for (std::int64_t c = 0; c < plane.channels; ++c) {
      for (std::int64_t at = 0; at < area; ++at) {
        const std::int64_t i =
            n * out.stride_n + c * out.stride_c + at / window.width * out.stride_h + at % window.width * out.stride_w;
        const float want =
            c < window.channels ? table.channel(c)[expected[static_cast<std::size_t>(at * window.channels + c)]] : 0.0F;
        if (plane.type == DataType::bf16) {
          ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(memory.data())[i], to_bf16(want));
        } else {
          ASSERT_EQ(reinterpret_cast<const float*>(memory.data())[i], want) << n << ' ' << c << ' ' << at;
        }
      }
    }
  }
}

TEST(Ingest, AddsNoiseWithoutBoundsInFloat) {
  Pixels p({5, 6, 3}, {5, 6, 3});
  const PixelTable table({0.1, 0.5, 0.3}, {0.5, 0.25, 1});
  InputPlane out{nullptr, DataType::f32, 3, 90, 30, 6, 1};
  const auto run = [&] {
    std::vector<float> values(std::size_t{kCount} * 90);
    out.data = values.data();
    ingest(p.batch, 0, kCount, nullptr, table, out);
    return values;
  };
  const std::vector<float> clean = run();
  for (AugmentationRecord& record : p.records) record.noise = 25, record.noise_seed = 7;
  p.records[1].noise_seed = 8;
  p.records[2].noise = 0;
  const std::vector<float> noisy = run();
  constexpr double kDeviations[] = {0.5, 0.25, 1};
  for (std::size_t n : {0, 1, 2}) {
    for (std::size_t i = 0; i < 90; ++i) {
      const std::size_t c = i / 30, place = i % 30 * 3 + c;
      const float deviate = n == 2 ? 0 : normal_deviate(n == 0 ? 7 : 8, static_cast<std::uint32_t>(place));
      const double added = 25 / 255.0 / kDeviations[c] * static_cast<double>(deviate);
      EXPECT_NEAR(static_cast<double>(noisy[n * 90 + i]), static_cast<double>(clean[n * 90 + i]) + added, 1e-5) << n << ' ' << i;
    }
  }
}

TEST(Ingest, DoesWhatTheReferenceDoes) {
  const View views[] = {{1, 1, false, Border::reflect, 1},
                        {-1, -1, true, Border::reflect, 1},
                        {3, -2, true, Border::constant, 1},
                        {-2, 0, false, Border::edge, 1}};
  for (const std::int32_t channels : {1, 3, 4}) {
    for (const ImageShape window : {ImageShape{9, 7, channels}, ImageShape{6, 5, channels}, ImageShape{12, 13, channels}}) {
      Pixels p({9, 7, channels}, window);
      for (const Plane& plane : {Plane{DataType::f32, false, channels}, Plane{DataType::bf16, true, channels},
                                 Plane{DataType::f32, true, 16}, Plane{DataType::bf16, true, 4}}) {
        SCOPED_TRACE(to_string(window) + (plane.channels_last ? ", channels last, " : ", plain, ") + to_string(plane.type));
        expect_matches(p, nullptr, plane);
        for (const View& view : views) expect_matches(p, &view, plane);
      }
    }
  }
}

TEST(PixelTable, ScalesAndShiftsByChannel) {
  const PixelTable table({0.5, 0}, {0.25, 1});
  EXPECT_FLOAT_EQ(table.channel(0)[255], 2);
  EXPECT_FLOAT_EQ(table.channel(0)[0], -2);
  EXPECT_FLOAT_EQ(table.channel(1)[51], 0.2F);
}

}  // namespace
}  // namespace millrace::cpu
