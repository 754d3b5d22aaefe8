// A batch normalisation, its ReLU and a max pooling fused, compared with separate ones: the bits are equal.
#include "normalise_fixture.h"
#include "pool.h"

namespace millrace::cuda {
namespace {

struct PooledMap {
  PoolWindow window;
  std::int32_t height, width, out_height, out_width;
};
// As ResNet's, tiling, overlap on all sides, gaps.
const std::vector<PooledMap> kPooledMaps = {{{3, 3, 2, 2, 1, 1}, 9, 8, 5, 4},
                                            {{2, 2, 2, 2, 0, 0}, 8, 6, 4, 3},
                                            {{3, 3, 1, 1, 1, 1}, 6, 5, 6, 5},
                                            {{2, 3, 3, 4, 0, 0}, 8, 11, 3, 3}};
constexpr std::int64_t kPooledSamples = 2;

template <class T>
struct NormAndPool {
  NormAndPool(const PooledMap& g, std::int64_t channels)
      : norm(kPooledSamples * g.height * g.width, channels),
        pooled(kPooledSamples * g.out_height * g.out_width, channels),
        d_pooled(pooled.rows(), channels),
        index(static_cast<std::size_t>(pooled.rows() * pooled.pitch()), 255),
        at{kPooledSamples, g.height, g.width, g.out_height, g.out_width, static_cast<std::int32_t>(norm.x.row_packs())},
        window(g.window) {
    norm.find_statistics();
    d_pooled.fill(7);
  }
  NormaliseMaxPool<T> forward() {
    return {norm.x.data(), pooled.data(), index.data(), norm.mean.data(), norm.factor.data(), norm.shift.data(), at, window};
  }
  PooledGradient<T> gradient() { return {d_pooled.data(), index.data(), at, window}; }
  void forward_apart() {
    run_on_host(norm.forward(Activation::relu));
    run_on_host(MaxPool<T>{norm.y.data(), pooled.data(), index.data(), at, window});
    run_on_host(MaxPoolBackward<T>{d_pooled.data(), index.data(), norm.dy.data(), at, window});
  }
  std::vector<std::span<std::byte>> memory() {
    std::vector<std::span<std::byte>> all = norm.memory();
    for (const auto& bytes : {pooled.bytes(), d_pooled.bytes(), bytes_of(index)}) all.push_back(bytes);
    return all;
  }

  Norm<T> norm;
  TestMap<T> pooled, d_pooled;
  std::vector<std::uint8_t> index;
  PoolExtents at;
  PoolWindow window;
};

template <class T>
using NormaliseAndPool = TypedElement<T>;
TYPED_TEST_SUITE(NormaliseAndPool, ElementTypes);

template <class T>
void expect_same(const TestMap<T>& found, const TestMap<T>& expected) {
  found.expect_near([&](auto row, auto c) { return expected.at(row, c); }, 0);
}

TYPED_TEST(NormaliseAndPool, GiveTheBitsThatTheyGiveApart) {
  for (const PooledMap& geometry : kPooledMaps) {
    for (const std::int64_t channels : {5, 24}) {
      NormAndPool<TypeParam> apart(geometry, channels), together(geometry, channels);
      apart.forward_apart();
      expect_names_its_memory(together.forward(), together.memory());
      expect_same(together.pooled, apart.pooled);
      EXPECT_EQ(together.index, apart.index);

      run_on_host(apart.norm.sums(Activation::relu));
      NormaliseBackwardSums<TypeParam> sums = together.norm.sums(Activation::relu);
      sums.dy = nullptr;
      sums.pooled = together.gradient();
      expect_names_its_memory(sums, together.memory());
      EXPECT_EQ(together.norm.partial, apart.norm.partial);

      for (const bool add : {false, true}) {
        NormaliseBackward<TypeParam> backward = together.norm.backward(Activation::relu),
                                     other = apart.norm.backward(Activation::relu);
        backward.add = other.add = add;
        backward.dy = nullptr;
        backward.pooled = together.gradient();
        for (NormAndPool<TypeParam>* each : {&apart, &together}) {
          each->norm.dx.fill(8);
          run_on_host(each->norm.finish_sums());
        }
        run_on_host(other);
        expect_names_its_memory(backward, together.memory());
        expect_same(together.norm.dx, apart.norm.dx);
      }
    }
  }
}

TYPED_TEST(NormaliseAndPool, NeedNeitherPlacesNorAShift) {
  NormAndPool<TypeParam> maps(kPooledMaps[0], 5);
  maps.norm.shift.zero();
  run_on_host(maps.forward());
  const TestMap<TypeParam> expected = maps.pooled;
  NormaliseMaxPool<TypeParam> forward = maps.forward();
  forward.index = nullptr;
  forward.shift = nullptr;
  expect_names_its_memory(forward, maps.memory());
  expect_same(maps.pooled, expected);
}

}  // namespace
}  // namespace millrace::cuda
