// Kernels of form `gather` over tensors of every layout, against plain loops.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/portable_fixture.h"
#include "millrace/error.h"
#include "millrace/kernels/divider.h"
#include "millrace/layer.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

struct Turned {  // y(c, y, x) = x(c, x, y) upside down
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    return from(0, from.height(0) - 1 - x, y);
  }
};
struct Dealt {  // channels distributed over groups, and the opposite place of a second tensor with half as many
  static constexpr bool kGather = true;
  static constexpr int kReads = 2;
  Divider groups;
  float factor;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const auto first = from(0, y, x), second = from(1, from.height(1) - 1 - y, from.width(1) - 1 - x);
    return [=, all = from.channels(0), kernel = *this](std::int32_t c) {
      return first(c % kernel.groups * (all / kernel.groups) + c / kernel.groups) + kernel.factor * second(c / 2);
    };
  }
};
struct Spread {  // a place for each channel: y(c, y, x) = x(0, c / W, c % W)
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider width;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t /*y*/, std::int32_t /*x*/) const {
    return [&from, kernel = *this](std::int32_t c) { return from(0, 0, c / kernel.width, c % kernel.width); };
  }
};
struct Ones {
  static constexpr bool kGather = true;
  static constexpr int kReads = 0;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& /*from*/, std::int32_t /*y*/, std::int32_t /*x*/) const {
    return [](std::int32_t /*c*/) { return 1.0F; };
  }
};

template <class F>
PortableElement gather_of(const F& functor, std::int64_t n, const std::vector<TensorView>& views) {
  const TensorView& written = views.back();
  return element_of(functor, {n, std::int64_t{written.height} * written.width, written.channels}, views);
}

constexpr std::int64_t kSamples = 2;

// Every instruction set, layout and type, with maps whose channels fill blocks or not, and vectors.
template <class Use>
void for_each_shape(const Use& use) {
  for_each_instruction_set([&](InstructionSet set) {
    for (const Lies lies : {Lies::channels_last, Lies::packed, Lies::blocked}) {
      for (const DataType type : {DataType::f32, DataType::bf16}) {
        for (const Shape& shape : {Shape{2, 1, 1}, {8, 5, 7}, {20, 3, 4}, {48, 9, 11}, {1300, 2, 3}, {34, 40, 50}}) {
          SCOPED_TRACE(testing::Message() << "set " << static_cast<int>(set) << ", layout " << static_cast<int>(lies) << ", "
                                          << to_string(type) << ", " << to_string(shape));
          use(lies, type, shape);
        }
      }
    }
  });
}

TEST(Gather, MovesPlaces) {
  for_each_shape([](Lies lies, DataType type, const Shape& shape) {
    Tensor x = Tensor::of_image(lies, type, kSamples, shape);
    Tensor y = Tensor::of_image(lies, type, kSamples, {shape[0], shape[2], shape[1]});
    x.fill(1);
    run(portable_kernel<Turned>().first, gather_of(Turned{}, kSamples, {x.view, y.view}));
    const std::int64_t height = shape[1], width = shape[2];
    y.each(shape[0], [&](auto n, auto pixel, auto c) {
      const std::int64_t row = pixel / height, column = pixel % height;
      ASSERT_EQ(y.at(n, pixel, c), x.at(n, (height - 1 - column) * width + row, c)) << n << ", " << pixel << ", " << c;
    });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

TEST(Gather, MovesChannelsAndReadsTensorsOfOtherShapes) {
  for_each_shape([](Lies lies, DataType type, const Shape& shape) {
    const std::int64_t channels = shape[0], pixels = shape[1] * shape[2];
    Tensor x = Tensor::of_image(lies, type, kSamples, shape), y = x;
    Tensor half = Tensor::of_image(lies, type, kSamples, {channels / 2, shape[1], shape[2]});
    x.fill(1);
    half.fill(2);
    run(portable_kernel<Dealt>().first, gather_of(Dealt{Divider(2), 3}, kSamples, {x.view, half.view, y.view}));
    y.each(channels, [&](auto n, auto pixel, auto c) {
      const double expected = x.at(n, pixel, c % 2 * (channels / 2) + c / 2) + 3 * half.at(n, pixels - 1 - pixel, c / 2);
      ASSERT_NEAR(y.at(n, pixel, c), expected, 4 * tolerance(type)) << n << ", " << pixel << ", " << c;
    });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

TEST(Gather, FindsAPlaceForEachChannel) {
  for_each_shape([](Lies lies, DataType type, const Shape& shape) {
    const std::int64_t pixels = shape[1] * shape[2];
    Tensor x = Tensor::of_image(lies, type, kSamples, shape), y = Tensor::of_image(lies, type, kSamples, {pixels, 2, 2});
    x.fill(3);
    run(portable_kernel<Spread>().first, gather_of(Spread{Divider(shape[2])}, kSamples, {x.view, y.view}));
    y.each(pixels,
           [&](auto n, auto pixel, auto c) { ASSERT_EQ(y.at(n, pixel, c), x.at(n, c, 0)) << n << ", " << pixel << ", " << c; });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

TEST(Gather, AddsToWhatIsThere) {
  for_each_shape([](Lies lies, DataType type, const Shape& shape) {
    Tensor y = Tensor::of_image(lies, type, kSamples, shape);
    y.fill(4);
    const Tensor before = y;
    TensorView added = y.view;
    added.add = true;
    run(portable_kernel<Ones>().first, gather_of(Ones{}, kSamples, {added}));
    y.each(shape[0],
           [&](auto n, auto pixel, auto c) { ASSERT_NEAR(y.at(n, pixel, c), before.at(n, pixel, c) + 1, 2 * tolerance(type)); });
    y.expect_zero_padding();
    y.expect_untouched_margin();
  });
}

TEST(Gather, ReadsTensorsOfTwoTypesAndLayouts) {
  const Shape shape = {40, 3, 5};
  Tensor x = Tensor::of_image(Lies::blocked, DataType::bf16, kSamples, shape);
  Tensor half = Tensor::of_image(Lies::channels_last, DataType::f32, kSamples, {20, 3, 5});
  Tensor y = Tensor::of_image(Lies::packed, DataType::f32, kSamples, shape);
  x.fill(1);
  half.fill(2);
  run(portable_kernel<Dealt>().first, gather_of(Dealt{Divider(4), 1}, kSamples, {x.view, half.view, y.view}));
  y.each(40, [&](auto n, auto pixel, auto c) {
    ASSERT_NEAR(y.at(n, pixel, c), x.at(n, pixel, c % 4 * 10 + c / 4) + half.at(n, 14 - pixel, c / 2), 1e-6);
  });
}

TEST(Gather, DoesNotDependOnHowItIsSharedOut) {
  for (const Lies lies : {Lies::channels_last, Lies::blocked}) {
    Tensor x = Tensor::of_image(lies, DataType::f32, kSamples, {40, 30, 31}), together = x, apart = x;
    Tensor half = Tensor::of_image(lies, DataType::f32, kSamples, {20, 30, 31});
    x.fill(5);
    half.fill(6);
    const Dealt dealt{Divider(4), 0.3F};
    const Kernel& kernel = portable_kernel<Dealt>().first;
    const PortableElement whole = gather_of(dealt, kSamples, {x.view, half.view, together.view});
    const PortableElement parts = gather_of(dealt, kSamples, {x.view, half.view, apart.view});
    ASSERT_GT(kernel.units(&whole), 10);
    kernel.run_on_host(&whole, 0, kernel.units(&whole));
    for (std::int64_t unit = kernel.units(&parts); unit-- > 0;) kernel.run_on_host(&parts, unit, unit + 1);
    apart.each(40, [&](auto n, auto pixel, auto c) { ASSERT_EQ(apart.at(n, pixel, c), together.at(n, pixel, c)); });
  }
}

TEST(Gather, SaysWhatItReadsAndWrites) {
  Tensor x = Tensor::of_image(Lies::channels_last, DataType::f32, kSamples, {20, 3, 4});
  Tensor y = Tensor::of_image(Lies::channels_last, DataType::f32, kSamples, {12, 2, 2});
  const PortableElement element = gather_of(Spread{Divider(4)}, kSamples, {x.view, y.view});
  const std::vector<MemoryUse> uses = portable_kernel<Spread>().first.uses(&element);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].memory, x.view.data);
  EXPECT_EQ(uses[0].bytes, sizeof(float) * 2 * 3 * 4 * 20);
  EXPECT_EQ(uses[1].memory, y.view.data);
  EXPECT_EQ(uses[1].bytes, sizeof(float) * 2 * 2 * 2 * 12);
  EXPECT_TRUE(uses[1].write);
}

TEST(Gather, TakesNoParameters) {
  Pass pass({{8, 2, 2}});
  pass.gather(Turned{}, {pass.in()}, pass.out());
  EXPECT_MESSAGE(testkit::error_of([&] { pass.gather(Turned{}, {pass.parameter(0)}, pass.out()); }).what());
}

TEST(Divider, DividesAsIntegersDo) {
  constexpr std::int32_t kMax = 2147483647;
  std::vector<std::int32_t> numbers = {1, 2, 3, 255, 256, 65535, 65537, 1 << 30, (1 << 30) + 1, kMax - 1, kMax};
  for (std::int32_t n = 4; n < 2'000'000'000; n += 1 + n / 40) numbers.push_back(n);
  for (const std::int32_t by : numbers) {
    const Divider divider(by);
    for (const std::int32_t near : numbers) {
      for (const std::int32_t n :
           {0, near, near - 1, near / by * by, near / by * by + (by - 1 <= kMax - near / by * by ? by - 1 : 0)}) {
        ASSERT_EQ(n / divider, n / by) << n << " / " << by;
        ASSERT_EQ(n % divider, n % by) << n << " / " << by;
      }
    }
  }
  EXPECT_EQ(17 / Divider(), 17);
}

}  // namespace
}  // namespace millrace
