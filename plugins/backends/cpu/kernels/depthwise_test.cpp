#include <algorithm>

#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

struct Geometry {
  PoolWindow window;
  std::int64_t height, width, bottom, right;  // bottom, right: padding
  std::int64_t out_height() const { return (height + window.top + bottom - window.kernel_height) / window.stride_height + 1; }
  std::int64_t out_width() const { return (width + window.left + right - window.kernel_width) / window.stride_width + 1; }
};
// Every window size with and without a stride; maps smaller than the window, of one pixel, of odd sizes, larger than a tile of
// the widest registers; padding on one side only, and maximum padding.
const std::vector<Geometry> kGeometries = {
    {{7, 7, 1, 1, 3, 3}, 9, 17, 3, 3}, {{7, 7, 1, 1, 3, 3}, 4, 2, 3, 3},  {{7, 7, 1, 1, 6, 6}, 1, 1, 6, 6},
    {{7, 7, 2, 2, 3, 3}, 9, 13, 3, 3}, {{7, 7, 1, 1, 0, 0}, 8, 37, 0, 0}, {{5, 5, 1, 1, 2, 2}, 7, 7, 2, 2},
    {{5, 5, 2, 2, 2, 2}, 7, 12, 2, 2}, {{5, 5, 2, 2, 0, 1}, 8, 9, 1, 3},  {{3, 3, 1, 1, 1, 1}, 5, 31, 1, 1},
    {{3, 3, 2, 2, 1, 1}, 9, 8, 1, 1},  {{3, 7, 2, 1, 0, 5}, 7, 9, 2, 0},  {{7, 5, 1, 2, 4, 4}, 3, 1, 6, 4},
};
constexpr std::int64_t kSamples = 3;

struct Convolved {
  Convolved(const Case& of, const Geometry& geometry, std::int64_t samples = kSamples)
      : c(of),
        g(geometry),
        x(c, samples, g.height, g.width),
        y(c, samples, g.out_height(), g.out_width()),
        dy(c, samples, g.out_height(), g.out_width()),
        dx(c, samples, g.height, g.width),
        weights(Layout::blocked, c.type, 1, c.channels, g.window.kernel_height, g.window.kernel_width),
        d_weights(Layout::blocked, DataType::f32, 1, c.channels, g.window.kernel_height, g.window.kernel_width),
        bias(random_values(static_cast<std::size_t>(c.channels), 9)) {
    x.fill(1);
    dy.fill(2);
    weights.fill(3, 0, 0.2);
  }
  void forward(bool relu) { c.kernels.depthwise(g.window, x.map, weights.map.data, bias.data(), relu, y.map); }
  void backward() {
    c.kernels.depthwise_backward_data(g.window, dy.map, weights.map.data, dx.map);
    c.kernels.depthwise_backward_weights(g.window, x.map, dy.map, static_cast<float*>(d_weights.map.data));
  }
  // body(input pixel, output pixel, place in the window) for all matching triples.
  template <class Body>
  void each_meeting(const Body& body) const {
    const PoolWindow& w = g.window;
    for (std::int64_t out = 0; out < y.map.pixels(); ++out) {
      for (std::int64_t k = 0; k < w.kernel_height * w.kernel_width; ++k) {
        const std::int64_t row = out / y.map.width * w.stride_height - w.top + k / w.kernel_width;
        const std::int64_t column = out % y.map.width * w.stride_width - w.left + k % w.kernel_width;
        if (row >= 0 && column >= 0 && row < g.height && column < g.width) body(row * g.width + column, out, k);
      }
    }
  }

  Case c;
  Geometry g;
  Tensor x, y, dy, dx, weights, d_weights;
  std::vector<float> bias;
};

template <class Body>
void for_each_convolved(const Body& body) {
  for_each_case([&](const Case& c) {
    for (std::size_t i = 0; i < kGeometries.size(); ++i) {
      ASSERT_TRUE(fits_depthwise(kGeometries[i].window));
      SCOPED_TRACE("geometry " + std::to_string(i));
      body(Convolved(c, kGeometries[i]));
    }
  });
}

TEST(Depthwise, MatchesTheReference) {
  for_each_convolved([](Convolved t) {
    for (const bool relu : {false, true}) {
      t.forward(relu);
      const Tensor& y = t.y;
      std::vector<double> expected(static_cast<std::size_t>(kSamples * t.c.channels * y.map.pixels()));
      const auto at = [&](auto n, auto k, auto pixel) -> double& {
        return expected[static_cast<std::size_t>((n * t.c.channels + k) * y.map.pixels() + pixel)];
      };
      y.each([&](auto n, auto k, auto pixel) { at(n, k, pixel) = static_cast<double>(t.bias[static_cast<std::size_t>(k)]); });
      t.each_meeting([&](auto in, auto out, auto place) {
        for (std::int64_t n = 0; n < kSamples; ++n) {
          for (std::int64_t k = 0; k < t.c.channels; ++k) at(n, k, out) += t.x.at(n, k, in) * t.weights.at(0, k, place);
        }
      });
      y.expect_near([&](auto n, auto k, auto p) { return relu ? std::max(at(n, k, p), 0.0) : at(n, k, p); }, t.c.tolerance());
    }
  });
}

TEST(Depthwise, BackwardToTheDataMatchesTheReference) {
  for_each_convolved([](Convolved t) {
    t.backward();
    std::vector<double> expected(static_cast<std::size_t>(kSamples * t.c.channels * t.dx.map.pixels()));
    const auto at = [&](auto n, auto k, auto pixel) -> double& {
      return expected[static_cast<std::size_t>((n * t.c.channels + k) * t.dx.map.pixels() + pixel)];
    };
    t.each_meeting([&](auto in, auto out, auto place) {
      for (std::int64_t n = 0; n < kSamples; ++n) {
        for (std::int64_t k = 0; k < t.c.channels; ++k) at(n, k, in) += t.dy.at(n, k, out) * t.weights.at(0, k, place);
      }
    });
    t.dx.expect_near([&](auto n, auto k, auto pixel) { return at(n, k, pixel); }, t.c.tolerance());
  });
}

TEST(Depthwise, BackwardToTheWeightsMatchesTheReference) {
  for_each_convolved([](Convolved t) {
    t.backward();
    std::vector<double> expected(static_cast<std::size_t>(t.c.channels * t.weights.map.pixels()));
    const auto at = [&](auto k, auto place) -> double& {
      return expected[static_cast<std::size_t>(k * t.weights.map.pixels() + place)];
    };
    t.each_meeting([&](auto in, auto out, auto place) {
      for (std::int64_t n = 0; n < kSamples; ++n) {
        for (std::int64_t k = 0; k < t.c.channels; ++k) at(k, place) += t.x.at(n, k, in) * t.dy.at(n, k, out);
      }
    });
    t.d_weights.expect_near([&](auto, auto k, auto place) { return at(k, place); }, 1e-4);  // sums are float32 in bf16 too
  });
}

TEST(Depthwise, IsTheSameForAnyNumberOfThreads) {
  for_each_case([](const Case& c) {
    for (const std::int64_t samples : {1, 19}) {
      const Geometry big{{7, 7, 1, 1, 3, 3}, 23, 24, 3, 3};
      expect_same_for_any_team([&] {
        Convolved t(c, big, samples);
        t.forward(true);
        t.backward();
        return std::tuple(bytes_of(t.y), bytes_of(t.dx), bytes_of(t.d_weights));
      });
    }
  });
}

// Values of one sample do not affect others, even if they are not finite.
TEST(Depthwise, KeepsSamplesApart) {
  for_each_case([](const Case& c) {
    Convolved t(c, kGeometries[0]);
    t.forward(false);
    Tensor before = t.y;
    for (std::int64_t p = 0; p < t.x.map.pixels(); ++p) t.x.set(1, 0, p, std::nan(""));
    t.forward(false);
    t.y.each([&](auto n, auto k, auto p) {
      if (n == 1 && k == 0)
        ASSERT_TRUE(std::isnan(t.y.at(n, k, p)));
      else
        ASSERT_EQ(t.y.at(n, k, p), before.at(n, k, p));
    });
  });
}

}  // namespace
}  // namespace millrace::cpu
