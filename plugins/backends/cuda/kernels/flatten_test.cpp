#include "flatten.h"

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

// Vectors and maps that end within a pack and at its end; fewer pixels than a pack has places.
const std::vector<FlattenExtents> kExtents = {{3, 1, 20}, {3, 6, 13}, {2, 4, 16}, {2, 35, 3}, {1, 64, 64}, {4, 2, 1}};

template <class T>
using Flattening = TypedElement<T>;
TYPED_TEST_SUITE(Flattening, ElementTypes);

TYPED_TEST(Flattening, BringsTheNetworksOrder) {
  for (const FlattenExtents& at : kExtents) {
    TestMap<TypeParam> x(at.n * at.pixels, at.channels), y(at.n, at.features());
    x.fill(1);
    expect_names_its_memory(Flatten<TypeParam>{x.data(), y.data(), at}, {x.bytes(), y.bytes()});
    y.expect_near([&](auto n, auto feature) { return x.at(n * at.pixels + feature % at.pixels, feature / at.pixels); }, 0);
  }
}

TYPED_TEST(Flattening, TakesGradientsBackAndMayAdd) {
  for (const FlattenExtents& at : kExtents) {
    TestMap<TypeParam> dx(at.n * at.pixels, at.channels), dy(at.n, at.features());
    dy.fill(1);
    FlattenBackward<TypeParam> element{dy.data(), dx.data(), at, false};
    expect_names_its_memory(element, {dx.bytes(), dy.bytes()});
    const auto expected = [&](auto row, auto c) { return dy.at(row / at.pixels, c * at.pixels + row % at.pixels); };
    dx.expect_near(expected, 0);
    element.add = true;
    expect_names_its_memory(element, {dx.bytes(), dy.bytes()});
    dx.expect_near([&](auto row, auto c) { return 2 * expected(row, c); }, 0);
  }
}

TYPED_TEST(Flattening, UnpacksForTheHost) {
  for (const FlattenExtents& at : kExtents) {
    TestMap<TypeParam> x(at.n * at.pixels, at.channels);
    x.fill(1);
    std::vector<float> y(static_cast<std::size_t>(at.n * at.features()), -7.0F);
    expect_names_its_memory(Unpack<TypeParam>{x.data(), y.data(), at}, {x.bytes(), bytes_of(y)});
    for (std::int64_t i = 0; i < at.n * at.features(); ++i) {
      const std::int64_t n = i / at.features(), c = i % at.features() / at.pixels, pixel = i % at.pixels;
      EXPECT_EQ(y[static_cast<std::size_t>(i)], static_cast<float>(x.at(n * at.pixels + pixel, c))) << i;
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
