#include "kernels_fixture.h"

#include <cmath>

namespace millrace::cpu {
namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu};
constexpr float kEpsilon = 1e-3F;

struct Statistics {
  std::vector<double> mean, variance;
};
Statistics reference_statistics(const Tensor& x) {
  const double count = static_cast<double>(x.map.n * x.map.pixels());
  Statistics s{std::vector<double>(static_cast<std::size_t>(x.map.channels)), {}};
  s.variance = s.mean;
  x.each([&](auto n, auto c, auto p) { s.mean[static_cast<std::size_t>(c)] += x.at(n, c, p) / count; });
  x.each([&](auto n, auto c, auto p) {
    const double difference = x.at(n, c, p) - s.mean[static_cast<std::size_t>(c)];
    s.variance[static_cast<std::size_t>(c)] += difference * difference / count;
  });
  return s;
}

// A complete batch normalisation, and its reference in double.
struct Fixture {
  Fixture(const Case& c, Activation kind, bool with_residual, std::int64_t n = 3, std::int64_t height = 3, std::int64_t width = 5)
      : activation(kind),
        residual_used(with_residual),
        x(c, n, height, width),
        residual(c, n, height, width),
        dy(c, n, height, width),
        scale(random_values(static_cast<std::size_t>(c.channels), 7, 1, 0.3)),
        shift(random_values(static_cast<std::size_t>(c.channels), 8, 0, 0.5)),
        mean(scale.size()),
        variance(scale.size()) {
    x.fill(1, 2, 1.5);
    residual.fill(2);
    dy.fill(3);
    c.kernels.batch_statistics(x.map, mean.data(), variance.data());
  }
  NormaliseArguments forward(const Tensor& y) const {
    return {x.map,           y.map,      mean.data(),
            variance.data(), kEpsilon,   scale.data(),
            shift.data(),    activation, residual_used ? &residual.map : nullptr};
  }
  NormaliseBackwardArguments backward() const {
    return {x.map,           dy.map,     mean.data(),
            variance.data(), kEpsilon,   scale.data(),
            shift.data(),    activation, residual_used ? &residual.map : nullptr,
            nullptr};
  }
  double before(std::int64_t n, std::int64_t c, std::int64_t p) const {  // the pre-activation
    const auto k = static_cast<std::size_t>(c);
    const double x_hat = (x.at(n, c, p) - mean[k]) / std::sqrt(static_cast<double>(variance[k]) + kEpsilon);
    return x_hat * scale[k] + shift[k] + (residual_used ? residual.at(n, c, p) : 0);
  }

  Activation activation;
  bool residual_used;
  Tensor x, residual, dy;
  std::vector<float> scale, shift, mean, variance;
};

template <class Body>
void for_each_fixture(const Body& body) {
  for_each_case([&](const Case& c) {
    for (const Activation activation : kActivations) {
      for (const bool residual : {false, true}) {
        SCOPED_TRACE("activation " + std::to_string(static_cast<int>(activation)) + (residual ? ", residual" : ""));
        body(c, Fixture(c, activation, residual));
      }
    }
  });
}

TEST(BatchStatistics, MatchTheReferenceFarFromZeroToo) {
  for_each_case([](const Case& c) {
    for (const double mean : {0.0, 100.0}) {
      Tensor x(c, 7, 19, 23);
      x.fill(4, mean, 1 + mean / 50);
      std::vector<float> found_mean(static_cast<std::size_t>(c.channels)), found_variance = found_mean;
      c.kernels.batch_statistics(x.map, found_mean.data(), found_variance.data());
      const Statistics expected = reference_statistics(x);
      for (std::size_t k = 0; k < found_mean.size(); ++k) {
        EXPECT_NEAR(found_mean[k], expected.mean[k], 1e-5 + 1e-7 * mean);
        EXPECT_NEAR(found_variance[k], expected.variance[k], 1e-5 * expected.variance[k]);
      }
    }
  });
}

TEST(BatchStatistics, OfAConstantAreExact) {
  for_each_case([](const Case& c) {
    Tensor x(c, 2, 40, 3);
    x.each([&](auto n, auto k, auto p) { x.set(n, k, p, 1000); });
    std::vector<float> mean(static_cast<std::size_t>(c.channels)), variance = mean;
    c.kernels.batch_statistics(x.map, mean.data(), variance.data());
    for (std::size_t k = 0; k < mean.size(); ++k) {
      EXPECT_FLOAT_EQ(mean[k], 1000);
      EXPECT_EQ(variance[k], 0);
    }
  });
}

TEST(Normalise, MatchesTheReference) {
  for_each_fixture([](const Case& c, const Fixture& f) {
    Tensor y(c, 3, 3, 5);
    c.kernels.normalise(f.forward(y));
    y.expect_near([&](auto n, auto k, auto p) { return reference_activation(f.activation, f.before(n, k, p)); }, c.tolerance());
  });
}

TEST(Normalise, WorksInPlaceAndWithoutScaleAndShift) {
  for_each_case([](const Case& c) {
    const Fixture f(c, Activation::gelu, false);
    Tensor y(c, 3, 3, 5), x = f.x;
    NormaliseArguments arguments = f.forward(y);
    arguments.scale = arguments.shift = nullptr;
    c.kernels.normalise(arguments);
    const std::vector<float> ones(f.scale.size(), 1.0F), zeros(f.scale.size(), 0.0F);
    arguments.x = arguments.y = x.map;
    arguments.scale = ones.data();
    arguments.shift = zeros.data();
    c.kernels.normalise(arguments);
    EXPECT_TRUE(x.same_bits(y));
  });
}

// d loss / d x by central differences of a forward in double, with loss = sum dy * y.
double difference_quotient(const Fixture& f, std::int64_t n0, std::int64_t c, std::int64_t p0) {
  const auto k = static_cast<std::size_t>(c);
  const std::int64_t pixels = f.x.map.pixels(), count = f.x.map.n * pixels;
  const auto loss = [&](double nudge) {
    double mean = 0, variance = 0, sum = 0;
    const auto value = [&](std::int64_t i) { return f.x.at(i / pixels, c, i % pixels) + (i == n0 * pixels + p0 ? nudge : 0); };
    for (std::int64_t i = 0; i < count; ++i) mean += value(i) / static_cast<double>(count);
    for (std::int64_t i = 0; i < count; ++i) variance += (value(i) - mean) * (value(i) - mean) / static_cast<double>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t n = i / pixels, p = i % pixels;
      const double before = (value(i) - mean) / std::sqrt(variance + kEpsilon) * f.scale[k] + f.shift[k] +
                            (f.residual_used ? f.residual.at(n, c, p) : 0);
      sum += f.dy.at(n, c, p) * reference_activation(f.activation, before);
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  return (loss(kStep) - loss(-kStep)) / (2 * kStep);
}

TEST(NormaliseBackward, MatchesFiniteDifferences) {
  for_each_fixture([](const Case& c, const Fixture& f) {
    Tensor dx(c, 3, 3, 5), d_residual(c, 3, 3, 5);
    std::vector<float> d_shift(f.scale.size()), d_scale = d_shift;
    c.kernels.normalise_backward_sums(f.backward(), d_shift.data(), d_scale.data(), &d_residual.map);
    c.kernels.normalise_backward(f.backward(), d_shift.data(), d_scale.data(), 45, dx.map);
    dx.expect_near([&](auto n, auto k, auto p) { return difference_quotient(f, n, k, p); }, std::max(c.tolerance(), 1e-4));
    const auto g = [&](auto n, auto k, auto p) { return f.dy.at(n, k, p) * reference_slope(f.activation, f.before(n, k, p)); };
    d_residual.expect_near(g, c.tolerance());
    std::vector<double> shift(f.scale.size()), scale = shift;
    dx.each([&](auto n, auto k, auto p) {
      const auto i = static_cast<std::size_t>(k);
      shift[i] += g(n, k, p);
      scale[i] += g(n, k, p) * (f.x.at(n, k, p) - f.mean[i]) / std::sqrt(static_cast<double>(f.variance[i]) + kEpsilon);
    });
    for (std::size_t i = 0; i < shift.size(); ++i) {
      EXPECT_NEAR(d_shift[i], shift[i], 1e-4);
      EXPECT_NEAR(d_scale[i], scale[i], 1e-4);
    }
  });
}

TEST(NormaliseBackward, OfReluTakesTheOutputInPlaceOfTheResidual) {
  for_each_case([](const Case& c) {
    const Fixture f(c, Activation::relu, true);
    Tensor y(c, 3, 3, 5), dx(c, 3, 3, 5), dx_by_y(c, 3, 3, 5);
    c.kernels.normalise(f.forward(y));
    NormaliseBackwardArguments by_y = f.backward();
    by_y.residual = nullptr;
    by_y.y = &y.map;
    std::vector<float> d_shift(f.scale.size()), d_scale = d_shift, d_shift_by_y = d_shift, d_scale_by_y = d_shift;
    c.kernels.normalise_backward_sums(f.backward(), d_shift.data(), d_scale.data(), nullptr);
    c.kernels.normalise_backward(f.backward(), d_shift.data(), d_scale.data(), 45, dx.map);
    c.kernels.normalise_backward_sums(by_y, d_shift_by_y.data(), d_scale_by_y.data(), nullptr);
    c.kernels.normalise_backward(by_y, d_shift_by_y.data(), d_scale_by_y.data(), 45, dx_by_y.map);
    EXPECT_EQ(d_shift, d_shift_by_y);
    EXPECT_EQ(d_scale, d_scale_by_y);
    EXPECT_TRUE(dx.same_bits(dx_by_y));
  });
}

TEST(NormaliseBackward, MayWriteOverTheGradient) {
  for_each_case([](const Case& c) {
    Fixture f(c, Activation::gelu, false);
    Tensor dx(c, 3, 3, 5);
    std::vector<float> d_shift(f.scale.size()), d_scale = d_shift;
    c.kernels.normalise_backward_sums(f.backward(), d_shift.data(), d_scale.data(), nullptr);
    c.kernels.normalise_backward(f.backward(), d_shift.data(), d_scale.data(), 45, dx.map);
    c.kernels.normalise_backward(f.backward(), d_shift.data(), d_scale.data(), 45, f.dy.map);
    EXPECT_TRUE(dx.same_bits(f.dy));
  });
}

TEST(Normalise, IsTheSameForAnyNumberOfThreads) {
  for_each_case([](const Case& c) {
    expect_same_for_any_team([&] {
      const Fixture f(c, Activation::gelu, true, 9, 17, 21);
      Tensor y(c, 9, 17, 21), dx(c, 9, 17, 21);
      std::vector<float> d_shift(f.scale.size()), d_scale = d_shift;
      c.kernels.normalise(f.forward(y));
      c.kernels.normalise_backward_sums(f.backward(), d_shift.data(), d_scale.data(), nullptr);
      c.kernels.normalise_backward(f.backward(), d_shift.data(), d_scale.data(), 9 * 17 * 21, dx.map);
      return std::tuple(bytes_of(y), bytes_of(dx), d_shift, d_scale, f.mean, f.variance);
    });
  });
}

TEST(RunningStatistics, KeepTheUnbiasedVariance) {
  const float mean[] = {2}, variance[] = {3};
  float running_mean[] = {1}, running_variance[] = {1};
  update_running(mean, variance, 1, 4, 0.25, running_mean, running_variance);
  EXPECT_FLOAT_EQ(running_mean[0], 1.25F);
  EXPECT_FLOAT_EQ(running_variance[0], 0.75F + 0.25F * 4);
}

TEST(RunningStatistics, OfAChannelWhoseFiguresAreNotFiniteStay) {
  const float mean[] = {NAN, 2, 2}, variance[] = {NAN, INFINITY, 3};
  float running_mean[] = {1, 1, 1}, running_variance[] = {1, 1, 1};
  update_running(mean, variance, 3, 4, 0.25, running_mean, running_variance);
  for (const int channel : {0, 1}) {
    EXPECT_EQ(running_mean[channel], 1);
    EXPECT_EQ(running_variance[channel], 1);
  }
  EXPECT_FLOAT_EQ(running_mean[2], 1.25F);
}

}  // namespace
}  // namespace millrace::cpu
