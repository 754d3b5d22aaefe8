// Shortcuts of batch normalisation: signs kept as bits, two gradients read at once, sums that their last block finishes.
#include <atomic>
#include <numeric>
#include <thread>

#include "normalise_fixture.h"
#include "plain.h"

namespace millrace::cuda {
namespace {

template <class T>
using ShorterNormalisation = TypedElement<T>;
TYPED_TEST_SUITE(ShorterNormalisation, ElementTypes);

TYPED_TEST(ShorterNormalisation, BackwardTakesTheSignsOfReluFromBits) {
  for (const std::int64_t channels : {3, 20, 64}) {
    Norm<TypeParam> n(41, channels);
    n.find_statistics();
    Normalise<TypeParam> forward = n.forward(Activation::relu);
    forward.residual = n.residual.data();
    forward.positive = n.positive.data();
    n.residual.set(7, 2, NAN);  // NaN is not above 0
    expect_names_its_memory(forward, n.memory());
    NormaliseBackwardSums<TypeParam> sums = n.sums(Activation::relu);
    sums.y = n.y.data();
    sums.masked = n.dx.data();
    run_on_host(sums);
    const TestMap<TypeParam> masked = n.dx;
    const std::vector<float> partial = n.partial;
    sums.y = nullptr;
    sums.positive = n.positive.data();
    expect_names_its_memory(sums, n.memory());
    n.dx.expect_near([&](auto row, auto c) { return masked.at(row, c); }, 0);
    EXPECT_EQ(n.partial, partial);
  }
}

// Chunks of a few groups, of packs in two blocks side by side.
TYPED_TEST(ShorterNormalisation, TheLastBlockFinishesASum) {
  for (const std::int64_t rows : {1, 700, 30000}) {
    for (const std::int64_t channels : {20, 300}) {
      if (rows > 1000 && channels > 100) continue;  // takes long
      Norm<TypeParam> n(rows, channels), apart(rows, channels);
      apart.find_statistics();
      Moments<TypeParam> moments{n.x.data(), rows, n.x.row_packs(), n.partial.data()};
      moments.last = n.last();
      moments.finish = n.finish();
      expect_names_its_memory(moments, n.memory());
      n.mean.expect_near([&](auto, auto c) { return apart.mean.at(0, c); }, 1e-7);
      n.variance.expect_near([&](auto, auto c) { return apart.variance.at(0, c); }, 1e-7);
      n.factor.expect_near([&](auto, auto c) { return apart.factor.at(0, c); }, 1e-7);
      run_on_host(apart.sums(Activation::relu));
      run_on_host(apart.finish_sums());
      NormaliseBackwardSums<TypeParam> sums = n.sums(Activation::relu);
      sums.last = n.last();
      sums.finish = n.finish_sums();
      expect_names_its_memory(sums, n.memory());
      n.d_shift.expect_near([&](auto, auto c) { return apart.d_shift.at(0, c); }, 1e-6);
      n.d_scale.expect_near([&](auto, auto c) { return apart.d_scale.at(0, c); }, 1e-6);
      EXPECT_EQ(n.tickets, std::vector<std::uint32_t>(n.tickets.size(), 0));
    }
  }
  EXPECT_GT(chunk_groups(chunks_of(30000, 3)), 1);
}

// Blocks come in any order, several at once: the result has the same bits.
TEST(LastBlock, MayBeAnyBlock) {
  constexpr std::int64_t kRows = 80000, kChannels = 20;
  Norm<float> n(kRows, kChannels);
  Moments<float> moments{n.x.data(), kRows, n.x.row_packs(), n.partial.data()};
  moments.last = n.last();
  moments.finish = n.finish();
  run_on_host(moments);
  const TestMap<float> mean = n.mean, variance = n.variance;
  const std::int64_t chunks = chunks_of(kRows, n.x.row_packs());
  ASSERT_GT(chunk_groups(chunks), 2);
  std::vector<std::int64_t> order(static_cast<std::size_t>(chunks));
  std::iota(order.begin(), order.end(), 0);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    for (TestMap<float>* map : {&n.mean, &n.variance}) map->fill(seed);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < order.size(); i = next++) {
          sum_chunk_on_host<MomentsColumn<float>>(moments, chunks, order[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    n.mean.expect_near([&](auto, auto c) { return mean.at(0, c); }, 0);
    n.variance.expect_near([&](auto, auto c) { return variance.at(0, c); }, 0);
  }
}

}  // namespace
}  // namespace millrace::cuda
