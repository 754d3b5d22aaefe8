#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

struct Geometry {
  PoolWindow window;
  std::int64_t height, width, out_height, out_width;
};
// Tiling with and without a remainder, overlap, gaps, padding, one window over all.
const std::vector<Geometry> kGeometries = {
    {{2, 2, 2, 2, 0, 0}, 8, 6, 4, 3}, {{2, 2, 2, 2, 0, 0}, 7, 9, 3, 4}, {{3, 3, 3, 3, 0, 0}, 7, 7, 2, 2},
    {{3, 3, 2, 2, 1, 1}, 9, 8, 5, 4}, {{2, 2, 3, 3, 0, 0}, 8, 9, 3, 3}, {{2, 3, 2, 4, 1, 0}, 7, 11, 4, 3},
    {{2, 2, 2, 2, 1, 1}, 5, 6, 3, 4}, {{5, 4, 5, 4, 0, 0}, 5, 4, 1, 1}, {{3, 3, 1, 1, 1, 1}, 6, 30, 6, 30},
};

// body(h, w, k): the pixels of window (i, j) inside the image, in order.
template <class Body>
void each_pixel(const Geometry& g, std::int64_t i, std::int64_t j, const Body& body) {
  for (std::int64_t kh = 0; kh < g.window.kernel_height; ++kh) {
    for (std::int64_t kw = 0; kw < g.window.kernel_width; ++kw) {
      const std::int64_t h = i * g.window.stride_height - g.window.top + kh, w = j * g.window.stride_width - g.window.left + kw;
      if (h >= 0 && w >= 0 && h < g.height && w < g.width) body(h, w, kh * g.window.kernel_width + kw);
    }
  }
}

struct Pooled {
  Pooled(const Case& c, const Geometry& geometry, unsigned seed = 1)
      : g(geometry),
        x(c, 3, g.height, g.width),
        y(c, 3, g.out_height, g.out_width),
        dy(c, 3, g.out_height, g.out_width),
        dx(c, 3, g.height, g.width),
        index(static_cast<std::size_t>(3 * y.map.blocks() * y.map.pixels() * 16), 255),
        mean(static_cast<std::size_t>(c.channels)),
        variance(mean) {
    x.fill(seed);
    x.each([&](auto n, auto k, auto p) { x.set(n, k, p, std::round(2 * x.at(n, k, p)) / 2); });  // many ties
    dy.fill(seed + 1);
  }
  std::size_t index_at(std::int64_t n, std::int64_t c, std::int64_t p) const {
    return static_cast<std::size_t>(((n * y.map.blocks() + c / 16) * y.map.pixels() + p) * 16 + c % 16);
  }
  // The first of the largest.
  std::pair<double, std::int64_t> largest(std::int64_t n, std::int64_t c, std::int64_t p) const {
    std::pair<double, std::int64_t> best{-INFINITY, -1};
    each_pixel(g, p / g.out_width, p % g.out_width, [&](auto h, auto w, auto k) {
      if (const double value = x.at(n, c, h * g.width + w); value > best.first) best = {value, k};
    });
    return best;
  }

  Geometry g;
  Tensor x, y, dy, dx;
  std::vector<std::uint8_t> index;
  std::vector<float> mean, variance;
};

template <class Body>
void for_each_pooled(const Body& body) {
  for_each_case([&](const Case& c) {
    for (std::size_t i = 0; i < kGeometries.size(); ++i) {
      SCOPED_TRACE("geometry " + std::to_string(i));
      body(c, Pooled(c, kGeometries[i]));
    }
  });
}

TEST(MaxPool, TakesTheFirstOfTheLargest) {
  for_each_pooled([](const Case& c, Pooled p) {
    c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), p.mean.data(), p.variance.data());
    p.y.expect_near([&](auto n, auto k, auto pixel) { return p.largest(n, k, pixel).first; }, 0);
    p.y.each([&](auto n, auto k, auto pixel) { ASSERT_EQ(p.index[p.index_at(n, k, pixel)], p.largest(n, k, pixel).second); });
    Tensor without = p.y;
    c.kernels.max_pool(p.g.window, p.x.map, without.map, nullptr, nullptr, nullptr);
    EXPECT_TRUE(without.same_bits(p.y));
  });
}

TEST(MaxPool, FindsTheStatisticsOfWhatItWrites) {
  for_each_pooled([](const Case& c, Pooled p) {
    c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), p.mean.data(), p.variance.data());
    std::vector<float> mean(p.mean.size()), variance = mean;
    c.kernels.batch_statistics(p.y.map, mean.data(), variance.data());
    for (std::size_t k = 0; k < mean.size(); ++k) {
      EXPECT_NEAR(p.mean[k], mean[k], 1e-6);
      EXPECT_NEAR(p.variance[k], variance[k], 1e-6);
    }
  });
}

void expect_each_gradient_at_the_largest(const Case& c, Pooled& p) {
  std::vector<double> expected(static_cast<std::size_t>(3 * c.channels * p.g.height * p.g.width));
  const auto at = [&](auto n, auto k, auto pixel) -> double& {
    return expected[static_cast<std::size_t>((n * c.channels + k) * p.g.height * p.g.width + pixel)];
  };
  p.dy.each([&](auto n, auto k, auto pixel) {
    const std::int64_t largest = p.largest(n, k, pixel).second;
    each_pixel(p.g, pixel / p.g.out_width, pixel % p.g.out_width, [&](auto h, auto w, auto place) {
      if (place == largest) at(n, k, h * p.g.width + w) += p.dy.at(n, k, pixel);
    });
  });
  p.dx.expect_near([&](auto n, auto k, auto pixel) { return at(n, k, pixel); }, c.tolerance());
}

TEST(MaxPool, BackwardGivesEachGradientToTheLargest) {
  for_each_pooled([](const Case& c, Pooled p) {
    c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), nullptr, nullptr);
    c.kernels.max_pool_backward(p.g.window, p.index.data(), p.dy.map, p.dx.map);
    expect_each_gradient_at_the_largest(c, p);
  });
}

// More positions than a byte can hold, with and without overlapping windows.
TEST(MaxPool, NamesEveryPlaceOfALargeWindow) {
  for (const Geometry& geometry :
       {Geometry{{19, 17, 4, 3, 5, 4}, 24, 20, 4, 4}, Geometry{{17, 18, 17, 18, 0, 0}, 35, 36, 2, 2}}) {
    for_each_case([&](const Case& c) {
      Pooled p(c, geometry);
      std::vector<std::int32_t> index(p.index.size(), -1);
      c.kernels.max_pool(p.g.window, p.x.map, p.y.map, index.data(), nullptr, nullptr);
      p.y.each([&](auto n, auto k, auto pixel) { ASSERT_EQ(index[p.index_at(n, k, pixel)], p.largest(n, k, pixel).second); });
      c.kernels.max_pool_backward(p.g.window, index.data(), p.dy.map, p.dx.map);
      expect_each_gradient_at_the_largest(c, p);
    });
  }
}

TEST(MaxPool, LetsNanThrough) {
  for_each_case([](const Case& c) {
    Pooled p(c, kGeometries[0]);
    p.x.set(0, 0, 1, std::nan(""));
    c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), nullptr, nullptr);
    EXPECT_TRUE(std::isnan(p.y.at(0, 0, 0)));
    EXPECT_EQ(p.index[p.index_at(0, 0, 0)], 1);
  });
}

TEST(NormaliseBackward, WithUnpoolingIsTheTwoOneAfterTheOther) {
  for_each_pooled([](const Case& c, Pooled p) {
    if (p.g.window.stride_height < p.g.window.kernel_height) return;
    c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), p.mean.data(), p.variance.data());
    const NormaliseBackwardArguments arguments{p.y.map, p.dy.map, p.mean.data(),    p.variance.data(), 1e-3F,
                                               nullptr, nullptr,  Activation::gelu, nullptr,           nullptr};
    const double count = static_cast<double>(3 * p.y.map.pixels());
    Tensor between = p.dy, dx = p.dx;
    std::vector<float> d_shift(p.mean.size()), d_scale = d_shift;
    c.kernels.normalise_backward_sums(arguments, d_shift.data(), d_scale.data(), nullptr);
    c.kernels.normalise_backward_unpool(arguments, d_shift.data(), d_scale.data(), count, p.g.window, p.index.data(), p.dx.map);
    c.kernels.normalise_backward(arguments, d_shift.data(), d_scale.data(), count, between.map);
    c.kernels.max_pool_backward(p.g.window, p.index.data(), between.map, dx.map);
    EXPECT_TRUE(dx.same_bits(p.dx));
    p.dx.expect_padding_kept();
  });
}

TEST(AveragePool, MatchesTheReferenceForwardAndBackward) {
  for_each_pooled([](const Case& c, Pooled p) {
    for (const bool count_padding : {false, true}) {
      p.g.window.count_padding = count_padding;
      const auto divisor = [&](std::int64_t pixel) {
        double inside = 0;
        each_pixel(p.g, pixel / p.g.out_width, pixel % p.g.out_width, [&](auto, auto, auto) { inside += 1; });
        return count_padding ? static_cast<double>(p.g.window.kernel_height * p.g.window.kernel_width) : inside;
      };
      c.kernels.average_pool(p.g.window, p.x.map, p.y.map);
      p.y.expect_near(
          [&](auto n, auto k, auto pixel) {
            double sum = 0;
            each_pixel(p.g, pixel / p.g.out_width, pixel % p.g.out_width,
                       [&](auto h, auto w, auto) { sum += p.x.at(n, k, h * p.g.width + w); });
            return sum / divisor(pixel);
          },
          c.tolerance());
      c.kernels.average_pool_backward(p.g.window, p.dy.map, p.dx.map);
      std::vector<double> expected(static_cast<std::size_t>(p.g.height * p.g.width));
      for (std::int64_t pixel = 0; pixel < p.y.map.pixels(); ++pixel) {
        each_pixel(p.g, pixel / p.g.out_width, pixel % p.g.out_width, [&](auto h, auto w, auto) {
          expected[static_cast<std::size_t>(h * p.g.width + w)] += p.dy.at(2, c.channels - 1, pixel) / divisor(pixel);
        });
      }
      p.dx.expect_near(
          [&](auto n, auto k, auto pixel) {  // one plane is compared, all are checked for unwritten elements
            const bool compared = n == 2 && k == c.channels - 1;
            return compared ? expected[static_cast<std::size_t>(pixel)] : p.dx.at(n, k, pixel);
          },
          c.tolerance());
    }
  });
}

TEST(Pool, IsTheSameForAnyNumberOfThreads) {
  for_each_case([](const Case& c) {
    const Geometry big{{2, 2, 2, 2, 0, 0}, 33, 40, 16, 20};
    expect_same_for_any_team([&] {
      Pooled p(c, big);
      c.kernels.max_pool(p.g.window, p.x.map, p.y.map, p.index.data(), p.mean.data(), p.variance.data());
      c.kernels.max_pool_backward(p.g.window, p.index.data(), p.dy.map, p.dx.map);
      return std::tuple(bytes_of(p.y), bytes_of(p.dx), p.mean, p.variance);
    });
  });
}

}  // namespace
}  // namespace millrace::cpu
