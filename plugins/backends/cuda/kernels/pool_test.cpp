#include "pool.h"

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

struct Geometry {
  PoolWindow window;
  std::int32_t height, width, out_height, out_width;
};
// Tiling with and without a remainder, overlap, gaps, padding, one window over all.
const std::vector<Geometry> kGeometries = {
    {{2, 2, 2, 2, 0, 0}, 8, 6, 4, 3}, {{2, 2, 2, 2, 0, 0}, 7, 9, 3, 4},       {{3, 3, 2, 2, 1, 1}, 9, 8, 5, 4},
    {{2, 2, 3, 3, 0, 0}, 8, 9, 3, 3}, {{2, 3, 2, 4, 1, 0}, 7, 11, 4, 3},      {{2, 2, 2, 2, 1, 1}, 5, 6, 3, 4},
    {{5, 4, 5, 4, 0, 0}, 5, 4, 1, 1}, {{3, 3, 1, 1, 1, 1, true}, 6, 5, 6, 5}, {{1, 1, 1, 1, 0, 0}, 1, 1, 1, 1},
};

template <class T>
struct Pooled {
  static constexpr std::int64_t kSamples = 2;

  Pooled(const Geometry& geometry, std::int64_t channels)
      : g(geometry),
        x(kSamples * g.height * g.width, channels),
        dx(kSamples * g.height * g.width, channels),
        y(kSamples * g.out_height * g.out_width, channels),
        dy(kSamples * g.out_height * g.out_width, channels),
        index(static_cast<std::size_t>(y.rows() * y.pitch()), 255),
        at{kSamples, g.height, g.width, g.out_height, g.out_width, static_cast<std::int32_t>(x.row_packs())} {
    x.fill(1);
    x.each([&](auto row, auto c) { x.set(row, c, std::round(2 * x.at(row, c)) / 2); });  // many ties
    dy.fill(2);
  }

  // body(row of x, place in the window) for the pixels of the window after a row of y, in order.
  template <class Body>
  void each_pixel(std::int64_t out, const Body& body) const {
    const std::int64_t n = out / (g.out_height * g.out_width), i = out / g.out_width % g.out_height, j = out % g.out_width;
    for (std::int64_t k = 0; k < g.window.kernel_h * g.window.kernel_w; ++k) {
      const std::int64_t h = i * g.window.stride_h - g.window.top + k / g.window.kernel_w;
      const std::int64_t w = j * g.window.stride_w - g.window.left + k % g.window.kernel_w;
      if (h >= 0 && w >= 0 && h < g.height && w < g.width) body((n * g.height + h) * g.width + w, k);
    }
  }
  // The first of the largest.
  std::pair<double, std::int64_t> largest(std::int64_t out, std::int64_t c) const {
    std::pair<double, std::int64_t> best{-INFINITY, -1};
    each_pixel(out, [&](auto row, auto k) {
      if (x.at(row, c) > best.first) best = {x.at(row, c), k};
    });
    return best;
  }
  double divisor(std::int64_t out) const {
    double pixels = 0;
    each_pixel(out, [&](auto, auto) { ++pixels; });
    return g.window.count_padding ? g.window.kernel_h * g.window.kernel_w : pixels;
  }
  // The gradient by the input when pixel k of the window after `out` gets part(out, c, k).
  template <class Part>
  TestMap<float> scattered(const Part& part) const {
    TestMap<float> sum(x.rows(), x.channels());
    sum.zero();
    dy.each(
        [&](auto out, auto c) { each_pixel(out, [&](auto row, auto k) { sum.set(row, c, sum.at(row, c) + part(out, c, k)); }); });
    return sum;
  }
  std::vector<std::span<std::byte>> memory() { return {x.bytes(), dx.bytes(), y.bytes(), dy.bytes(), bytes_of(index)}; }

  Geometry g;
  TestMap<T> x, dx, y, dy;
  std::vector<std::uint8_t> index;
  PoolExtents at;
};

template <class T>
class Pooling : public ::testing::Test {
 protected:
  template <class Body>
  void for_each(const Body& body) {
    for (std::size_t i = 0; i < kGeometries.size(); ++i) {
      for (const std::int64_t channels : {3, 20, 64}) {
        SCOPED_TRACE("geometry " + std::to_string(i) + ", " + std::to_string(channels) + " channels");
        Pooled<T> pooled(kGeometries[i], channels);
        body(pooled);
      }
    }
  }
};
TYPED_TEST_SUITE(Pooling, ElementTypes);

TYPED_TEST(Pooling, MaxTakesTheFirstOfTheLargest) {
  this->for_each([](Pooled<TypeParam>& p) {
    expect_names_its_memory(MaxPool<TypeParam>{p.x.data(), p.y.data(), p.index.data(), p.at, p.g.window}, p.memory());
    p.y.expect_near([&](auto out, auto c) { return p.largest(out, c).first; }, 0);
    p.y.each(
        [&](auto out, auto c) { ASSERT_EQ(p.index[static_cast<std::size_t>(out * p.y.pitch() + c)], p.largest(out, c).second); });
    const TestMap<TypeParam> y = p.y;
    expect_names_its_memory(MaxPool<TypeParam>{p.x.data(), p.y.data(), nullptr, p.at, p.g.window}, p.memory());
    p.y.expect_near([&](auto out, auto c) { return y.at(out, c); }, 0);
  });
}

TYPED_TEST(Pooling, MaxGivesEachGradientToTheLargest) {
  this->for_each([](Pooled<TypeParam>& p) {
    run_on_host(MaxPool<TypeParam>{p.x.data(), p.y.data(), p.index.data(), p.at, p.g.window});
    const TestMap<float> expected =
        p.scattered([&](auto out, auto c, auto k) { return k == p.largest(out, c).second ? p.dy.at(out, c) : 0; });
    MaxPoolBackward<TypeParam> element{p.dy.data(), p.index.data(), p.dx.data(), p.at, p.g.window, false};
    expect_names_its_memory(element, p.memory());
    p.dx.expect_near([&](auto row, auto c) { return expected.at(row, c); });
    element.add = true;
    expect_names_its_memory(element, p.memory());
    p.dx.expect_near([&](auto row, auto c) { return 2 * expected.at(row, c); }, 2 * tolerance<TypeParam>());
  });
}

TYPED_TEST(Pooling, MaxNamesPlacesThatAByteCannot) {
  Pooled<TypeParam> p({{19, 17, 4, 3, 5, 4}, 24, 20, 4, 4}, 20);
  std::vector<std::int32_t> index(p.index.size(), -1);
  std::vector<std::span<std::byte>> memory = p.memory();
  memory.push_back(bytes_of(index));
  std::int64_t last = 0;
  p.dy.each([&](auto out, auto c) { last = std::max(last, p.largest(out, c).second); });
  ASSERT_GT(last, kNarrowPlaces);
  expect_names_its_memory(WideMaxPool<TypeParam>{p.x.data(), p.y.data(), index.data(), p.at, p.g.window}, memory);
  p.y.each(
      [&](auto out, auto c) { ASSERT_EQ(index[static_cast<std::size_t>(out * p.y.pitch() + c)], p.largest(out, c).second); });
  const TestMap<float> expected =
      p.scattered([&](auto out, auto c, auto k) { return k == p.largest(out, c).second ? p.dy.at(out, c) : 0; });
  expect_names_its_memory(WideMaxPoolBackward<TypeParam>{p.dy.data(), index.data(), p.dx.data(), p.at, p.g.window, false},
                          memory);
  p.dx.expect_near([&](auto row, auto c) { return expected.at(row, c); });
}

TYPED_TEST(Pooling, MaxLetsNanThrough) {
  Pooled<TypeParam> p(kGeometries[0], 3);
  p.x.set(1, 0, NAN);
  for (const std::int64_t row : {0, 1, 6}) p.x.set(row, 1, NAN);  // the last of them is what backend "cpu" names
  for (const std::int64_t row : {0, 1, 6, 7}) p.x.set(row, 2, -INFINITY);
  run_on_host(MaxPool<TypeParam>{p.x.data(), p.y.data(), p.index.data(), p.at, p.g.window});
  EXPECT_TRUE(std::isnan(p.y.at(0, 0)));
  EXPECT_TRUE(std::isnan(p.y.at(0, 1)));
  EXPECT_EQ(p.y.at(0, 2), -INFINITY);
  EXPECT_EQ(p.index[0], 1);
  EXPECT_EQ(p.index[1], 2);
  EXPECT_EQ(p.index[2], 0);
}

TYPED_TEST(Pooling, AverageDividesByWhatItCounts) {
  this->for_each([](Pooled<TypeParam>& p) {
    expect_names_its_memory(AveragePool<TypeParam>{p.x.data(), p.y.data(), p.at, p.g.window}, p.memory());
    p.y.expect_near([&](auto out, auto c) {
      double sum = 0;
      p.each_pixel(out, [&](auto row, auto) { sum += p.x.at(row, c); });
      return sum / p.divisor(out);
    });
    const TestMap<float> expected = p.scattered([&](auto out, auto c, auto) { return p.dy.at(out, c) / p.divisor(out); });
    AveragePoolBackward<TypeParam> element{p.dy.data(), p.dx.data(), p.at, p.g.window, false};
    expect_names_its_memory(element, p.memory());
    p.dx.expect_near([&](auto row, auto c) { return expected.at(row, c); });
    element.add = true;
    expect_names_its_memory(element, p.memory());
    p.dx.expect_near([&](auto row, auto c) { return 2 * expected.at(row, c); }, 2 * tolerance<TypeParam>());
  });
}

}  // namespace
}  // namespace millrace::cuda
