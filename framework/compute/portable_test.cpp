// Portable kernels over tensors of every layout, against plain loops.
#include "millrace/kernels/portable.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compute/portable_fixture.h"
#include "millrace/error.h"
#include "millrace/layer.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

struct Weighted {
  float factor;
  MILLRACE_KERNEL float operator()(float x, float w) const { return factor * x + w; }
};
struct Products {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float a, float b) const { return a * b; }
};
struct Shares {  // y = x / sum of |x|; the sum of each place
  static constexpr int kReads = 1, kWrites = 2;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float sum = row.sum([&](auto c) { return math::abs(row.in(0, c)); });
    const float most = row.largest([&](auto c) { return row.in(0, c); });
    row.each([&](auto c) { row.out(0, c, row.in(0, c) / sum); });
    row.place_out(1, most);
  }
};

// Every instruction set, layout, type and a choice of extents.
template <class Use>
void for_each_case(const Use& use) {
  for_each_instruction_set([&](InstructionSet set) {
    for (const Lies lies : {Lies::channels_last, Lies::packed, Lies::blocked}) {
      for (const DataType type : {DataType::f32, DataType::bf16}) {
        for (const Extents& at :
             {Extents{1, 1, 1}, {3, 35, 8}, {2, 7, 20}, {2, 100, 48}, {5, 1, 10}, {1, 3, 2100}, {2, 2500, 16}}) {
          SCOPED_TRACE(testing::Message() << "set " << static_cast<int>(set) << ", layout " << static_cast<int>(lies) << ", "
                                          << to_string(type) << ", " << at.n << " x " << at.pixels << " x " << at.channels);
          use(lies, type, at);
        }
      }
    }
  });
}

TEST(Portable, EachComputesWhatTheFunctorSays) {
  for_each_case([](Lies lies, DataType type, const Extents& at) {
    Tensor x(lies, type, at.n, at.pixels, at.channels), w = x, y = x;
    x.fill(1);
    w.fill(2);
    run(portable_kernel<Weighted>().first, element_of(Weighted{3}, at, {x.view, w.view, y.view}));
    y.each(at.channels, [&](auto n, auto pixel, auto c) {
      ASSERT_NEAR(y.at(n, pixel, c), 3 * x.at(n, pixel, c) + w.at(n, pixel, c), 4 * tolerance(type))
          << n << ", " << pixel << ", " << c;
    });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

struct Joined {  // the float32 with the bits of both
  MILLRACE_KERNEL float operator()(float high, float low) const {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(high) | std::bit_cast<std::uint32_t>(low) >> 16);
  }
};

TEST(Portable, RoundsToBf16AlikeOnEveryInstructionSet) {
  constexpr std::int64_t kCount = 65536;  // NaN, infinity and denormal numbers among them
  std::vector<Bf16> high(kCount), low(kCount), result(kCount);
  for (std::size_t i = 0; i < kCount; ++i) high[i] = {static_cast<std::uint16_t>(i)};
  for_each_instruction_set([&](InstructionSet set) {
    for (const unsigned bits : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      std::fill(low.begin(), low.end(), Bf16{static_cast<std::uint16_t>(bits)});
      const Bf16* const in[] = {high.data(), low.data()};
      const Joined joined;
      portable_kernel<Joined>().each_bf16(&joined, in, result.data(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto exact = std::bit_cast<float>(static_cast<std::uint32_t>(i) << 16 | bits);
        ASSERT_EQ(result[i].bits, from_float<Bf16>(exact).bits) << i << ", " << bits << ", set " << static_cast<int>(set);
      }
    }
  });
}

TEST(Portable, EachAddsToWhatIsThere) {
  for_each_case([](Lies lies, DataType type, const Extents& at) {
    Tensor x(lies, type, at.n, at.pixels, at.channels), y = x;
    x.fill(1);
    y.fill(2);
    const Tensor before = y;
    TensorView added = y.view;
    added.add = true;
    run(portable_kernel<Weighted>().first, element_of(Weighted{2}, at, {x.view, x.view, added}));
    y.each(at.channels, [&](auto n, auto pixel, auto c) {
      ASSERT_NEAR(y.at(n, pixel, c), before.at(n, pixel, c) + 3 * x.at(n, pixel, c), 4 * tolerance(type));
    });
    y.expect_zero_padding();
  });
}

TEST(Portable, EachTakesAVectorForEveryPixelAndAParameterForEverySample) {
  for_each_case([](Lies lies, DataType type, const Extents& at) {
    Tensor x(lies, type, at.n, at.pixels, at.channels), y = x;
    Tensor vector(Lies::channels_last, type, at.n, 1, at.channels),
        parameter(Lies::channels_last, DataType::f32, 1, 1, at.channels);
    x.fill(1);
    vector.fill(2);
    parameter.fill(3);
    vector.view.stride_pixel = 0;
    run(portable_kernel<Weighted>().first, element_of(Weighted{1}, at, {x.view, vector.view, y.view}));
    y.each(at.channels, [&](auto n, auto pixel, auto c) {
      ASSERT_NEAR(y.at(n, pixel, c), x.at(n, pixel, c) + vector.at(n, 0, c), 2 * tolerance(type));
    });
    parameter.view.stride_n = parameter.view.stride_pixel = 0;
    run(portable_kernel<Weighted>().first, element_of(Weighted{1}, at, {x.view, parameter.view, y.view}));
    y.each(at.channels, [&](auto n, auto pixel, auto c) {
      ASSERT_NEAR(y.at(n, pixel, c), x.at(n, pixel, c) + parameter.at(0, 0, c), 2 * tolerance(type));
    });
  });
}

TEST(Portable, RowsSeeTheChannelsOfOnePlace) {
  for_each_case([](Lies lies, DataType type, const Extents& at) {
    Tensor x(lies, type, at.n, at.pixels, at.channels), y = x;
    x.fill(4);
    std::vector<float> most(static_cast<std::size_t>(at.n * at.pixels), -9);
    TensorView places;
    places.data = most.data();
    places.stride_n = at.pixels;
    places.stride_pixel = 1;
    places.by_channel = false;
    places.padded = 1;
    run(portable_kernel<Shares>().first, element_of(Shares{}, at, {x.view, y.view, places}));
    x.each(1, [&](auto n, auto pixel, auto) {
      double sum = 0, largest = -2;
      for (std::int64_t c = 0; c < at.channels; ++c) {
        sum += std::abs(x.at(n, pixel, c));
        largest = std::max(largest, x.at(n, pixel, c));
      }
      ASSERT_EQ(most[static_cast<std::size_t>(n * at.pixels + pixel)], static_cast<float>(largest));
      for (std::int64_t c = 0; c < at.channels; ++c) {
        ASSERT_NEAR(y.at(n, pixel, c), x.at(n, pixel, c) / sum, 2 * tolerance(type));
      }
    });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

TEST(Portable, SumsAddOverPlaces) {
  for_each_case([](Lies lies, DataType type, const Extents& at) {
    for (const bool by_sample : {false, true}) {
      Tensor a(lies, type, at.n, at.pixels, at.channels), b = a;
      Tensor result(Lies::packed, DataType::f32, by_sample ? at.n : 1, 1, at.channels);
      a.fill(5);
      b.fill(6);
      PortableElement element = element_of(Products{}, at, {a.view, b.view, result.view});
      element.by_sample = by_sample;
      std::vector<float> partial(element.partial_bytes() / sizeof(float), NAN);
      element.partial = partial.data();
      run(portable_kernel<Products>().first, element);
      run(portable_kernel<Products>().second, element);
      std::vector<double> expected(static_cast<std::size_t>(element.groups() * at.channels));
      a.each(at.channels, [&](auto n, auto pixel, auto c) {
        expected[static_cast<std::size_t>((by_sample ? n : 0) * at.channels + c)] += a.at(n, pixel, c) * b.at(n, pixel, c);
      });
      for (std::int64_t group = 0; group < element.groups(); ++group) {
        for (std::int64_t c = 0; c < at.channels; ++c) {
          ASSERT_NEAR(result.at(group, 0, c), expected[static_cast<std::size_t>(group * at.channels + c)], 1e-4);
        }
      }
      result.expect_zero_padding();
      result.expect_untouched_margin();
    }
  });
}

TEST(Portable, ASumDoesNotDependOnHowItIsSharedOut) {
  const Extents at{2, 3000, 24};
  Tensor a(Lies::channels_last, DataType::f32, at.n, at.pixels, at.channels), b = a;
  a.fill(7);
  b.fill(8);
  std::vector<float> together(24), apart(24);
  for (std::vector<float>* result : {&together, &apart}) {
    TensorView view;
    view.data = result->data();
    view.padded = at.channels;
    PortableElement element = element_of(Products{}, at, {a.view, b.view, view});
    std::vector<float> partial(element.partial_bytes() / sizeof(float));
    element.partial = partial.data();
    const Kernel& first = portable_kernel<Products>().first;
    const std::int64_t step = result == &together ? first.units(&element) : 1;
    for (std::int64_t unit = 0; unit < first.units(&element); unit += step) first.run_on_host(&element, unit, unit + step);
    run(portable_kernel<Products>().second, element);
  }
  EXPECT_EQ(together, apart);
}

TEST(Portable, SaysWhatItReadsAndWrites) {
  const Extents at{2, 3, 20};
  Tensor x(Lies::packed, DataType::bf16, at.n, at.pixels, at.channels), y = x;
  y.view.add = true;
  const PortableElement element = element_of(Weighted{1}, at, {x.view, x.view, y.view});
  const std::vector<MemoryUse> uses = portable_kernel<Weighted>().first.uses(&element);
  ASSERT_EQ(uses.size(), 4U);  // y is both read and written
  const std::size_t whole = 2 * 3 * 24 * 2;
  EXPECT_EQ(uses[0].memory, x.view.data);
  EXPECT_EQ(uses[0].bytes, whole);  // including the padding of the last place, which is computed too
  EXPECT_EQ(uses[3].memory, y.view.data);
  EXPECT_TRUE(uses[3].write);
  EXPECT_EQ(uses[3].bytes, whole);
}

TEST(Pass, RefusesAKernelWithTheWrongTensors) {
  Pass pass({{8, 2, 2}});
  EXPECT_MESSAGE(testkit::error_of([&] { pass.each(Weighted{1}, pass.in(), pass.out()); }).what());
}

TEST(Pass, RefusesASecondKernelForAGradient) {
  Pass pass({{8, 2, 2}, {8, 2, 2}});
  pass.each(Weighted{1}, pass.d_out(), pass.in(1), pass.d_in(0));
  pass.each(Weighted{1}, pass.d_out(), pass.in(0), pass.d_in(1));
  EXPECT_THROW(pass.each(Weighted{1}, pass.d_out(), pass.in(0), pass.d_in(0)), Error);
  EXPECT_EQ(pass.calls().size(), 2U);
}

TEST(Portable, IsNamedAsItsTypeIs) {
  EXPECT_NE(std::string(portable_kernel<Weighted>().first.name).find("Weighted"), std::string::npos);
}

// ---- Functions ----

// The error in units of the last place of the exact result.
double ulps(float result, double exact) {
  if (std::isnan(exact)) return std::isnan(result) ? 0 : INFINITY;
  const auto rounded = static_cast<float>(exact);
  if (std::isinf(rounded)) return result == rounded ? 0 : INFINITY;
  const double unit = std::max<double>(std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded), 1.2e-38);
  return std::abs(static_cast<double>(result) - exact) / unit;
}

template <class Ours, class Exact>
double worst(const Ours& ours, const Exact& exact, double low, double high) {
  double most = 0;
  for (int i = 0; i <= 400000; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / 400000);
    most = std::max(most, ulps(ours(x), exact(static_cast<double>(x))));
  }
  return most;
}

TEST(KernelMath, StaysWithinTwoUnits) {
  EXPECT_LT(worst([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }, -100, 100), 2);
  EXPECT_LT(worst([](float x) { return math::log(x); }, [](double x) { return std::log(x); }, 0, 10), 2);
  EXPECT_LT(worst([](float x) { return math::log(x); }, [](double x) { return std::log(x); }, 0, 1e30), 2);
  EXPECT_LT(worst([](float x) { return math::log1p(x); }, [](double x) { return std::log1p(x); }, -0.999, 4), 3);
  EXPECT_LT(worst([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }, -12, 12), 2);
  EXPECT_LT(worst([](float x) { return math::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80), 3);
}

TEST(KernelMath, KnowsItsEdges) {
  EXPECT_EQ(math::exp(-INFINITY), 0);
  EXPECT_EQ(math::exp(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(math::exp(NAN)));
  EXPECT_EQ(math::log(0.0F), -INFINITY);
  EXPECT_EQ(math::log(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(math::log(-1.0F)));
  EXPECT_TRUE(std::isnan(math::log(NAN)));
  EXPECT_EQ(math::log1p(1e-10F), 1e-10F);
  EXPECT_TRUE(std::isnan(math::tanh(NAN)));
  EXPECT_EQ(math::tanh(-100.0F), -1);
  EXPECT_EQ(math::sigmoid(-INFINITY), 0);
}

}  // namespace
}  // namespace millrace
