#include "kernels_fixture.h"
#include "millrace/sample.h"
#include "plain.h"

namespace millrace::cuda {
namespace {

TEST(Bf16, IsRoundedAsOnTheHost) {
  std::mt19937 generator(1);
  for (int i = 0; i < 200000; ++i) {
    const auto any = static_cast<std::uint32_t>(generator());
    const std::uint32_t bits = i < 65536 ? static_cast<std::uint32_t>(i) << 16 | 0x8000U : any;  // all ties first
    float value;
    std::memcpy(&value, &bits, sizeof value);
    const Bf16 rounded = from_float<Bf16>(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(rounded)));
    } else {
      ASSERT_EQ(rounded.bits, millrace::to_bf16(value)) << value;
      ASSERT_EQ(to_float(rounded), millrace::from_bf16(rounded.bits));
    }
  }
}

TEST(Bf16, AreRoundedInPacksAsOneByOne) {
  const float values[kPack] = {1.00390625F, -1.01171875F, 3e38F, 3.4e38F, -1e-40F, INFINITY, NAN, 0.1F};
  const Pack<Bf16> pack = pack_of<Bf16>(values);
  for (std::int64_t k = 0; k < kPack; ++k) EXPECT_EQ(pack.values[k].bits, from_float<Bf16>(values[k]).bits) << k;
  EXPECT_TRUE(std::isnan(to_float(pack.values[6])));
}

TEST(Divide, IsRightInBothWidths) {
  for (const std::int64_t i : {0LL, 1LL, 7LL, 4294967295LL, 4294967296LL, 123456789012345LL}) {
    for (const std::int64_t by : {1LL, 3LL, 8LL, 4294967295LL, 4294967297LL}) {
      const Division result = divide(i, by);
      EXPECT_EQ(result.quotient, i / by);
      EXPECT_EQ(result.remainder, i % by);
    }
  }
}

TEST(Philox, DrawsTheBitsOfTheFramework) {
  std::mt19937 generator(1);
  const auto draw = [&] { return static_cast<std::uint32_t>(generator()); };
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t a = draw(), b = draw(), c = draw(), d = draw(), low = draw(), high = draw();
    const PhiloxBlock found = philox({{a, b, c, d}}, std::uint64_t{high} << 32 | low);
    const millrace::Philox::Counter expected = millrace::Philox::block({a, b, c, d}, {low, high});
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(found.words[w], expected[w]);
    const std::uint64_t word = std::uint64_t{a} << 32 | b, other = std::uint64_t{c} << 32 | d;
    ASSERT_EQ(mix_word(word), mix64(word));
    ASSERT_EQ(chain_words(word, other), combine(word, other));
  }
}

TEST(Chunks, CoverAllRowsAndStaySmall) {
  for (const std::int64_t rows : {1, 2, 31, 255, 4096, 12544, 802816, 3211264}) {
    for (const std::int64_t packs : {1, 3, 8, 31, 32, 33, 256, 512}) {
      const std::int64_t chunks = chunks_of(rows, packs);
      ASSERT_GE(chunks, 1);
      ASSERT_LE(chunks, kMaxChunks);
      ASSERT_EQ(chunk_begin(rows, chunks, 0), 0);
      ASSERT_EQ(chunk_begin(rows, chunks, chunks), rows);
      if (chunks == 1) continue;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        ASSERT_GE(chunk_begin(rows, chunks, chunk + 1) - chunk_begin(rows, chunks, chunk), 64);
      }
      ASSERT_LE(partial_bytes(rows, packs, 2) * 16, static_cast<std::size_t>(rows * packs * kPack) * sizeof(Bf16) * 2);
    }
  }
  EXPECT_EQ(chunks_of(3211264, 8), kMaxChunks);
  EXPECT_EQ(parts_of(49, 64, 1), 6);  // work without sums may be divided further
  EXPECT_EQ(chunks_of(49, 64), 1);
  EXPECT_GE(chunks_of(12544, 256) * 8, 1024);  // the last maps of a ResNet-50 still fill a large device
}

// Sums its lanes' numbers in two ways.
struct LaneSums {
  static constexpr Form kForm = Form::groups;
  double* out = nullptr;
  std::int64_t size() const { return 3; }
  template <class Group>
  void operator()(const Group& group, std::int64_t i) const {
    const std::int32_t sum = group.sum(group.lane()), most = group.largest(group.lane());
    const double quarters = group.sum(0.25);
    group.barrier();
    if (group.lane() == 0) out[i] = static_cast<double>(i) * 1000 + sum + 0.5 * most + quarters;
  }
};

TEST(Groups, JoinTheirLanes) {
  double results[3] = {};
  run_on_host(LaneSums{results});
  EXPECT_EQ(results[2], 2000.25);
  run_on_threads(LaneSums{results}, 4);
  EXPECT_EQ(results[2], 2000 + 6 + 1.5 + 1);
}

}  // namespace
}  // namespace millrace::cuda
