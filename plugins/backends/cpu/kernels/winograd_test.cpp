// Winograd's algorithm compared with a direct convolution in double. Both read the same inputs; ours in bf16 rounds in between.
#include <algorithm>
#include <tuple>

#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

const WinogradKernels* kernels_for(DataType type) {
  for (const Kernels* const* each = all_kernels(); *each != nullptr; ++each) {
    if ((*each)->winograd(type) != nullptr) return (*each)->winograd(type);
  }
  return nullptr;
}

struct Geometry {
  std::int64_t samples, in, out, height, width, top, left, bottom, right;
};
// Odd and even sizes, one pixel, less than a tile, padding of all kinds, an odd number of blocks on both sides, one tile more
// than a thread transforms at once; with few channels and many tiles, and with many channels, where sums are divided differently.
const std::vector<Geometry> kGeometries = {
    {1, 16, 16, 1, 1, 1, 1, 1, 1},  {2, 32, 48, 9, 11, 1, 1, 1, 1},  {3, 48, 16, 4, 4, 1, 1, 1, 1},
    {2, 16, 32, 7, 5, 0, 0, 0, 0},  {2, 32, 16, 3, 6, 2, 2, 2, 2},   {1, 16, 16, 8, 9, 2, 0, 0, 1},
    {1, 16, 16, 2, 58, 1, 1, 1, 1}, {2, 32, 32, 42, 43, 1, 1, 1, 1}, {5, 96, 112, 14, 14, 1, 1, 1, 1}};

struct Convolved {
  Convolved(DataType type, Layout layout, const Geometry& geometry)
      : g(geometry),
        kernels(*kernels_for(type)),
        shape{g.in, g.out, g.top, g.left},
        x(layout, type, g.samples, g.in, g.height, g.width),
        y(layout, type, g.samples, g.out, g.height + g.top + g.bottom - 2, g.width + g.left + g.right - 2),
        dy(y),
        dx(x),
        weights(random_values(static_cast<std::size_t>(g.in * g.out * 9), 3, 0, std::sqrt(1.0 / static_cast<double>(9 * g.in)))),
        bias(random_values(static_cast<std::size_t>(g.out), 4)),
        d_weights(weights.size(), std::nanf("")) {
    x.fill(1);
    dy.fill(2);
  }
  void forward(bool relu) {
    const Memory transformed(kernels.transformed_bytes(shape) / sizeof(float));
    kernels.transform_weights(shape, weights.data(), false, transformed.floats());
    kernels.convolve(shape, x.map, transformed.floats(), bias.data(), relu, y.map);
  }
  void backward() {
    const Memory transformed(kernels.transformed_bytes(shape) / sizeof(float));
    kernels.transform_weights(shape, weights.data(), true, transformed.floats());
    kernels.convolve(shape.backward(), dy.map, transformed.floats(), nullptr, false, dx.map);
    const Memory sums(kernels.backward_floats(shape, dy.map));
    kernels.backward_weights(shape, x.map, dy.map, sums.floats(), d_weights.data());
  }
  float weight(std::int64_t out, std::int64_t in, std::int64_t place) const {
    return weights[static_cast<std::size_t>((out * g.in + in) * 9 + place)];
  }
  // body(input pixel, output pixel, place in the window) for all matching triples.
  template <class Body>
  void each_meeting(const Body& body) const {
    for (std::int64_t out = 0; out < y.map.pixels(); ++out) {
      for (std::int64_t k = 0; k < 9; ++k) {
        const std::int64_t row = out / y.map.width - g.top + k / 3, column = out % y.map.width - g.left + k % 3;
        if (row >= 0 && column >= 0 && row < g.height && column < g.width) body(row * g.width + column, out, k);
      }
    }
  }

  // Aligned, and NaN until written.
  class Memory {
   public:
    explicit Memory(std::size_t floats)
        : tensor_(Layout::blocked, DataType::f32, 1, 16, 1, static_cast<std::int64_t>(floats / 16 + 1)) {}
    float* floats() const { return static_cast<float*>(tensor_.map.data); }

   private:
    Tensor tensor_;
  };

  Geometry g;
  const WinogradKernels& kernels;
  WinogradShape shape;
  Tensor x, y, dy, dx;
  std::vector<float> weights, bias, d_weights;
};

class Winograd : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    if (kernels_for(GetParam()) == nullptr) GTEST_SKIP() << "this processor has no instructions for it";
  }
  void for_each_convolved(const std::function<void(Convolved&)>& body) {
    for (const Layout layout : {Layout::blocked, Layout::channels_last}) {
      for (std::size_t i = 0; i < kGeometries.size(); ++i) {
        SCOPED_TRACE((layout == Layout::blocked ? "blocked, geometry " : "channels last, geometry ") + std::to_string(i));
        Convolved convolved(GetParam(), layout, kGeometries[i]);
        body(convolved);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, Winograd, testing::Values(DataType::f32, DataType::bf16),
                         [](const auto& each) { return std::string(to_string(each.param)); });

// |found - expected| / |expected|, and no element of a map further away than a few roundings of the largest.
struct Distance {
  explicit Distance(DataType type) : unit(type == DataType::bf16 ? 1.0 / 128 : 1e-6) {}
  double unit, difference = 0, norm = 0, worst = 0;
  void add(double found, double expected) {
    difference += (found - expected) * (found - expected);
    norm += expected * expected;
    worst = std::max(worst, std::isnan(found) ? 1e9 : std::abs(found - expected));
  }
  void expect_near() const {
    EXPECT_LT(std::sqrt(difference / norm), unit);
    EXPECT_LT(worst, 10 * unit * std::max(1.0, std::sqrt(norm) / 1e3));
  }
};
Distance distance_of(const Tensor& found, const std::vector<double>& expected) {
  Distance distance(found.map.type);
  found.each([&](auto n, auto c, auto p) {
    distance.add(found.at(n, c, p), expected[static_cast<std::size_t>((n * found.map.channels + c) * found.map.pixels() + p)]);
  });
  found.expect_padding_kept();
  return distance;
}

TEST_P(Winograd, MatchesADirectConvolution) {
  for_each_convolved([](Convolved& t) {
    std::vector<double> expected(static_cast<std::size_t>(t.y.map.elements()));
    const auto at = [&](auto n, auto k, auto pixel) -> double& {
      return expected[static_cast<std::size_t>((n * t.g.out + k) * t.y.map.pixels() + pixel)];
    };
    t.y.each([&](auto n, auto k, auto pixel) { at(n, k, pixel) = static_cast<double>(t.bias[static_cast<std::size_t>(k)]); });
    t.each_meeting([&](auto in, auto out, auto place) {
      for (std::int64_t n = 0; n < t.g.samples; ++n) {
        for (std::int64_t i = 0; i < t.g.in; ++i) {
          const double value = t.x.at(n, i, in);
          for (std::int64_t k = 0; k < t.g.out; ++k) at(n, k, out) += value * static_cast<double>(t.weight(k, i, place));
        }
      }
    });
    t.forward(false);
    distance_of(t.y, expected).expect_near();
    const Tensor before = t.y;
    t.forward(true);
    t.y.each([&](auto n, auto k, auto p) { ASSERT_EQ(t.y.at(n, k, p), std::max(before.at(n, k, p), 0.0)); });
  });
}

TEST_P(Winograd, BackwardMatchesADirectConvolution) {
  for_each_convolved([](Convolved& t) {
    std::vector<double> dx(static_cast<std::size_t>(t.x.map.elements())), dw(t.weights.size());
    t.each_meeting([&](auto in, auto out, auto place) {
      for (std::int64_t n = 0; n < t.g.samples; ++n) {
        for (std::int64_t k = 0; k < t.g.out; ++k) {
          const double gradient = t.dy.at(n, k, out);
          for (std::int64_t i = 0; i < t.g.in; ++i) {
            dx[static_cast<std::size_t>((n * t.g.in + i) * t.x.map.pixels() + in)] +=
                gradient * static_cast<double>(t.weight(k, i, place));
            dw[static_cast<std::size_t>((k * t.g.in + i) * 9 + place)] += gradient * t.x.at(n, i, in);
          }
        }
      }
    });
    t.backward();
    distance_of(t.dx, dx).expect_near();
    Distance distance(t.x.map.type);
    for (std::size_t i = 0; i < dw.size(); ++i) distance.add(static_cast<double>(t.d_weights[i]), dw[i]);
    EXPECT_LT(std::sqrt(distance.difference / distance.norm), distance.unit);
  });
}

TEST_P(Winograd, IsTheSameForAnyNumberOfThreads) {
  for (const Geometry& geometry : {kGeometries[7], kGeometries[8]}) {
    expect_same_for_any_team([&] {
      Convolved t(GetParam(), Layout::blocked, geometry);
      t.forward(true);
      t.backward();
      return std::tuple(bytes_of(t.y), bytes_of(t.dx), t.d_weights);
    });
  }
}

// Values of one sample do not affect others, even if they are not finite.
TEST_P(Winograd, KeepsSamplesApart) {
  for_each_convolved([](Convolved& t) {
    t.forward(false);
    const Tensor before = t.y;
    const std::int64_t spoilt = t.g.samples - 1;
    for (std::int64_t p = 0; p < t.x.map.pixels(); ++p) t.x.set(spoilt, 0, p, std::nan(""));
    t.forward(false);
    t.y.each([&](auto n, auto k, auto p) {
      if (n == spoilt)
        ASSERT_TRUE(std::isnan(t.y.at(n, k, p)) || t.g.top != 1);
      else
        ASSERT_EQ(t.y.at(n, k, p), before.at(n, k, p));
    });
  });
}

}  // namespace
}  // namespace millrace::cpu
