// Layers that move values between places and channels, on each backend: their output compared with its origin.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "replicas.h"

namespace millrace::conformance {
namespace {

// A value before the layer, by channel, row and column.
using Before = std::function<double(std::int64_t c, std::int64_t y, std::int64_t x)>;
// A layer's output for its input of 20 x 6 x 7.
struct Moved {
  const char* layer;
  Shape output;
  double (*value)(const Before& before, std::int64_t c, std::int64_t y, std::int64_t x);
  const char* beside = "";  // layers that provide its other inputs
};

// The share of place `from` in place `to`, of `extent` places enlarged to `larger`.
double share(std::int64_t from, std::int64_t to, std::int64_t extent, std::int64_t larger) {
  const double middle = (static_cast<double>(to) + 0.5) * static_cast<double>(extent) / static_cast<double>(larger) - 0.5;
  const double at = std::min(std::max(middle, 0.0), static_cast<double>(extent - 1));
  return std::max(0.0, 1 - std::abs(at - static_cast<double>(from)));
}
template <std::int64_t kHeight, std::int64_t kWidth>
double between(const Before& before, std::int64_t c, std::int64_t y, std::int64_t x) {
  double sum = 0;
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t column = 0; column < 7; ++column) {
      sum += share(row, y, 6, kHeight) * share(column, x, 7, kWidth) * before(c, row, column);
    }
  }
  return sum;
}

// A window's mean at the place of its first largest value after a ReLU, which makes many values equal.
template <std::int64_t kHeight, std::int64_t kWidth>
double unpooled(const Before& before, std::int64_t c, std::int64_t y, std::int64_t x) {
  const std::int64_t top = y / kHeight * kHeight, left = x / kWidth * kWidth;
  if (top + kHeight > 6 || left + kWidth > 7) return 0;
  double sum = 0, largest = -1;
  bool own = false;
  for (std::int64_t row = top; row < top + kHeight; ++row) {
    for (std::int64_t column = left; column < left + kWidth; ++column) {
      sum += before(c, row, column);
      const double value = std::max(before(c, row, column), 0.0);
      if (value <= largest) continue;
      largest = value;
      own = row == y && column == x;
    }
  }
  return own ? sum / static_cast<double>(kHeight * kWidth) : 0;
}
constexpr const char* kTwoByTwo =
    "{ name = \"mean\", op = \"average_pool\", kernel = 2 }, { name = \"relu\", op = \"relu\", from = \"before\" },";
constexpr const char* kThreeByTwo =
    "{ name = \"mean\", op = \"average_pool\", kernel = [3, 2] }, { name = \"relu\", op = \"relu\", from = \"before\" },";

// The windows of adaptive poolings: the mean of one, or its largest value.
template <std::int64_t kHeight, std::int64_t kWidth, bool kMean>
double adapted(const Before& before, std::int64_t c, std::int64_t y, std::int64_t x) {
  double sum = 0, largest = before(c, y * 6 / kHeight, x * 7 / kWidth);
  std::int64_t count = 0;
  for (std::int64_t row = y * 6 / kHeight; row * kHeight < (y + 1) * 6; ++row) {
    for (std::int64_t column = x * 7 / kWidth; column * kWidth < (x + 1) * 7; ++column, ++count) {
      sum += before(c, row, column);
      largest = std::max(largest, before(c, row, column));
    }
  }
  return kMean ? sum / static_cast<double>(count) : largest;
}

const Moved kMoved[] = {
    {"op = \"channel_shuffle\", groups = 4",
     {20, 6, 7},
     [](auto& before, auto c, auto y, auto x) { return before(c % 4 * 5 + c / 4, y, x); }},
    {"op = \"pixel_shuffle\", factor = 2",
     {5, 12, 14},
     [](auto& before, auto c, auto y, auto x) { return before(4 * c + y % 2 * 2 + x % 2, y / 2, x / 2); }},
    {"op = \"upsample\", factor = [2, 3]",
     {20, 12, 21},
     [](auto& before, auto c, auto y, auto x) { return before(c, y / 2, x / 3); }},
    {"op = \"upsample\", size = [9, 4]",
     {20, 9, 4},
     [](auto& before, auto c, auto y, auto x) { return before(c, y * 6 / 9, x * 7 / 4); }},
    {"op = \"upsample\", factor = 2, mode = \"bilinear\"", {20, 12, 14}, between<12, 14>},
    {"op = \"upsample\", size = [9, 16], mode = \"bilinear\"", {20, 9, 16}, between<9, 16>},
    {"op = \"crop_like\", from = [\"before\", \"small\"]",
     {20, 3, 2},
     [](auto& before, auto c, auto y, auto x) { return before(c, y + 1, x + 2); }},
    {"op = \"zero_pad\", padding = [1, 0, 2, 3]",
     {20, 9, 10},
     [](auto& before, auto c, auto y, auto x) { return y < 1 || y > 6 || x > 6 ? 0.0 : before(c, y - 1, x); }},
    {"op = \"max_unpool\", from = [\"mean\", \"relu\"]", {20, 6, 7}, unpooled<2, 2>, kTwoByTwo},
    {"op = \"max_unpool\", kernel = [3, 2], from = [\"mean\", \"relu\"]", {20, 6, 7}, unpooled<3, 2>, kThreeByTwo},
    {"op = \"adaptive_average_pool\", size = [4, 3]", {20, 4, 3}, adapted<4, 3, true>},
    {"op = \"adaptive_average_pool\", size = [6, 10]", {20, 6, 10}, adapted<6, 10, true>},
    {"op = \"adaptive_max_pool\", size = [4, 3]", {20, 4, 3}, adapted<4, 3, false>},
    {"op = \"adaptive_max_pool\", size = [6, 10]", {20, 6, 10}, adapted<6, 10, false>},
};

// The first outputs of two layers after inference, (N, C, H, W).
std::array<std::vector<float>, 2> outputs_of(const char* backend, const Network& network, Precision precision, LayerPort first,
                                             LayerPort second) {
  Made made;
  made.backend = with_simulation().backends().find(backend)->create();
  made.device = made.backend->open(0, {});
  CompileOptions options;
  options.infer_batch = kBatch;
  options.precision = precision;
  options.request.outputs = {first, second};
  made.replica = made.device->compile(network, options);
  made.replica->start();
  testkit::randomise(network, *made.replica, 1);
  std::array<std::vector<float>, 2> values;
  std::array<std::shared_ptr<std::uint8_t[]>, 2> memory;
  std::vector<OutputCopy> copies;
  for (std::size_t i = 0; i < 2; ++i) {
    const LayerPort port = i == 0 ? first : second;
    values[i].resize(kBatch * static_cast<std::size_t>(network.shape_of(port).elements()));
    memory[i] = made.device->host_buffer(values[i].size() * sizeof(float));
    copies.push_back({port, reinterpret_cast<float*>(memory[i].get())});
  }
  StepSums sums;
  const View plain;
  made.replica->infer(batch_of(network), 0, kBatch, std::span(&plain, 1), nullptr, sums);
  made.replica->read_outputs(copies)->wait();
  made.replica->finish();
  for (std::size_t i = 0; i < 2; ++i) std::copy_n(copies[i].host, values[i].size(), values[i].begin());
  return values;
}

class MovedValues : public InPrecision<> {};

TEST_P(MovedValues, ComeFromTheirPlaces) {
  const auto [backend, precision] = GetParam();
  for (const Moved& moved : kMoved) {
    SCOPED_TRACE(moved.layer);
    const std::string text = std::string(R"(
input = { channels = 3, height = 6, width = 7 }
layers = [
  { name = "small", op = "conv", out = 2, kernel = [4, 6], from = "@input" },
  { op = "global_average_pool" }, { name = "seen", op = "linear", out = 4 },
  { name = "before", op = "conv", out = 20, kernel = 1, from = "@input" },
  )") + moved.beside + R"({ name = "moved", )" +
                             moved.layer +
                             R"( },
  { name = "fc", op = "linear", out = 4 },
  { op = "add", from = ["fc", "seen"] },
]
)";
    const auto network = testkit::network_from_text(text, with_simulation());
    const auto index_of = [&](const char* name) {
      int index = 0;
      while (network->layers[static_cast<std::size_t>(index)].name != name) ++index;
      return index;
    };
    const LayerPort before = index_of("before"), after = index_of("moved");
    ASSERT_EQ(network->shape_of(after), moved.output);
    const auto [from, to] = outputs_of(backend, *network, precision, before, after);
    std::size_t at = 0;
    for (std::size_t n = 0; n < kBatch; ++n) {
      const Before value = [&, &input = from](std::int64_t c, std::int64_t y, std::int64_t x) {
        return static_cast<double>(input[n * 20 * 6 * 7 + static_cast<std::size_t>((c * 6 + y) * 7 + x)]);
      };
      for (std::int64_t c = 0; c < moved.output[0]; ++c) {
        for (std::int64_t y = 0; y < moved.output[1]; ++y) {
          for (std::int64_t x = 0; x < moved.output[2]; ++x) {
            const double expected = moved.value(value, c, y, x), tolerance = precision == Precision::bf16 ? 1.0 / 256 : 1e-5;
            ASSERT_NEAR(static_cast<double>(to[at++]), expected, tolerance * (std::abs(expected) + 1))
                << n << ", " << c << ", " << y << ", " << x;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MovedValues,
                         testing::Combine(testing::Values("cpu", "simulated"),
                                          testing::Values(Precision::fp32, Precision::bf16)));

}  // namespace
}  // namespace millrace::conformance
