#include "normalise_fixture.h"

namespace millrace::cuda {
namespace {

double value_of(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? x : 0;
  return kind == Activation::gelu ? x * normal_cdf(x) : x;
}
double slope_of(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? 1 : 0;
  return kind == Activation::gelu ? normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI) : 1;
}

template <class T>
using Normalisation = TypedElement<T>;
TYPED_TEST_SUITE(Normalisation, ElementTypes);

TYPED_TEST(Normalisation, FindsMeanAndVariance) {
  for (const std::int64_t rows : {1, 2, 37, 1000, 5000}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      Norm<TypeParam> n(rows, channels);
      expect_names_its_memory(Moments<TypeParam>{n.x.data(), rows, n.x.row_packs(), n.partial.data()}, n.memory());
      expect_names_its_memory(n.finish(), n.memory());
      n.mean.expect_near([&](auto, auto c) { return n.mean_of(c); }, 1e-5);
      n.variance.expect_near([&](auto, auto c) { return n.variance_of(c); }, 5e-5);
      n.factor.expect_near([&](auto, auto c) { return n.scale.at(0, c) / std::sqrt(n.variance_of(c) + 1e-3); }, 5e-5);
    }
  }
  EXPECT_GT(chunks_of(5000, 8), 1);  // the last of these is summed in parts
}

TEST(Moments, AreSafeFarFromZero) {
  Norm<float> n(5000, 20, 1e4);
  n.find_statistics();
  n.variance.expect_near([&](auto, auto c) { return n.variance_of(c); }, 1e-4);
}

TEST(FinishMoments, GivesTheSameWithManyLanes) {
  Norm<float> n(20000, 20);
  n.find_statistics();
  const TestMap<float> mean = n.mean, factor = n.factor;
  run_on_threads(n.finish(), 5);
  n.mean.expect_near([&](auto, auto c) { return mean.at(0, c); }, 1e-7);
  n.factor.expect_near([&](auto, auto c) { return factor.at(0, c); }, 1e-7);
}

TEST(FinishMoments, MovesRunningStatistics) {
  for (const std::int64_t rows : {1, 50}) {
    Norm<float> n(rows, 20);
    n.find_statistics();
    TestMap<float> mean(1, 20), variance(1, 20);
    mean.fill(7);
    variance.fill(8, 5, 1);
    const TestMap<float> old_mean = mean, old_variance = variance;
    FinishMoments<float> element = n.finish();
    element.running_mean = mean.data();
    element.running_variance = variance.data();
    std::vector<std::span<std::byte>> memory = n.memory();
    memory.push_back(mean.bytes());
    memory.push_back(variance.bytes());
    expect_names_its_memory(element, memory);
    const double unbiased = rows > 1 ? n.count() / (n.count() - 1) : 1;
    mean.expect_near([&](auto, auto c) { return 0.75 * old_mean.at(0, c) + 0.25 * n.mean_of(c); }, 1e-5);
    variance.expect_near([&](auto, auto c) { return 0.75 * old_variance.at(0, c) + 0.25 * unbiased * n.variance_of(c); }, 1e-5);
  }
}

TEST(RunningMoments, MakeTheFactor) {
  for (const bool scaled : {false, true}) {
    TestMap<float> variance(1, 20), scale(1, 20), factor(1, 20);
    variance.fill(1, 4, 0.5);
    scale.fill(2);
    RunningMoments element{variance.data(), scaled ? scale.data() : nullptr, kEpsilon, factor.data(), variance.pitch()};
    expect_names_its_memory(element, {variance.bytes(), scale.bytes(), factor.bytes()});
    for (std::int64_t c = 0; c < 20; ++c) {
      EXPECT_NEAR(factor.at(0, c), (scaled ? scale.at(0, c) : 1) / std::sqrt(variance.at(0, c) + 1e-3), 1e-6);
    }
  }
}

TYPED_TEST(Normalisation, ForwardWithAndWithoutAdditionAndInPlace) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      Norm<TypeParam> n(41, channels);
      n.find_statistics();
      Normalise<TypeParam> element = n.forward(activation);
      expect_names_its_memory(element, n.memory());
      n.y.expect_near([&](auto row, auto c) { return value_of(activation, n.pre(row, c, false)); });
      element.residual = n.residual.data();
      expect_names_its_memory(element, n.memory());
      n.y.expect_near([&](auto row, auto c) { return value_of(activation, n.pre(row, c, true)); });
      const TestMap<TypeParam> y = n.y;
      element.y = n.residual.data();
      expect_names_its_memory(element, n.memory());
      n.residual.expect_near([&](auto row, auto c) { return y.at(row, c); }, 0);
    }
  }
}

TYPED_TEST(Normalisation, PaddingStaysZeroWithoutScaleShiftAndEpsilon) {
  Norm<TypeParam> n(41, 20);
  run_on_host(Moments<TypeParam>{n.x.data(), 41, n.x.row_packs(), n.partial.data()});
  FinishMoments<TypeParam> finish = n.finish();
  finish.scale = nullptr;
  finish.epsilon = 0;
  run_on_host(finish);
  Normalise<TypeParam> element = n.forward(Activation::none);
  element.shift = nullptr;
  expect_names_its_memory(element, n.memory());
  n.y.expect_near([&](auto row, auto c) { return (n.x.at(row, c) - n.mean_of(c)) / std::sqrt(n.variance_of(c)); });
}

// dx of loss sum(dy * y), by the textbook, from g and x_hat over all rows.
template <class T, class G>
double expected_dx(const Norm<T>& n, std::int64_t row, std::int64_t c, const G& g) {
  double sum = 0, weighted = 0;
  for (std::int64_t r = 0; r < n.x.rows(); ++r) {
    sum += g(r, c);
    weighted += g(r, c) * n.x_hat(r, c);
  }
  const double inverse = 1 / std::sqrt(n.variance.at(0, c) + static_cast<double>(kEpsilon));
  return n.scale.at(0, c) * inverse * (g(row, c) - sum / n.count() - n.x_hat(row, c) * weighted / n.count());
}

TYPED_TEST(Normalisation, BackwardWritesAddsAndMayBeInPlace) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    for (const std::int64_t rows : {1, 41, 700}) {
      for (const std::int64_t channels : {3, 20, 64}) {
        Norm<TypeParam> n(rows, channels);
        n.find_statistics();
        const TestMap<TypeParam> dy = n.dy;
        const auto g = [&](auto row, auto c) { return dy.at(row, c) * slope_of(activation, n.pre(row, c, false)); };
        const auto expected = [&](auto row, auto c) { return expected_dx(n, row, c, g); };
        expect_names_its_memory(n.sums(activation), n.memory());
        expect_names_its_memory(n.finish_sums(), n.memory());
        const auto sum = [&](auto c, const auto& term) {
          double total = 0;
          for (std::int64_t row = 0; row < rows; ++row) total += term(row, c);
          return total;
        };
        n.d_shift.expect_near([&](auto, auto c) { return sum(c, g); }, 1e-4);
        n.d_scale.expect_near([&](auto, auto c) { return sum(c, [&](auto r, auto k) { return g(r, k) * n.x_hat(r, k); }); },
                              1e-4);
        if (rows > 100 && channels > 3) continue;  // expected() takes long
        NormaliseBackward<TypeParam> element = n.backward(activation);
        expect_names_its_memory(element, n.memory());
        n.dx.expect_near(expected, 2 * tolerance<TypeParam>());
        const TestMap<TypeParam> dx = n.dx;
        element.add = true;
        expect_names_its_memory(element, n.memory());
        n.dx.expect_near([&](auto row, auto c) { return 2 * dx.at(row, c); });
        element.add = false;
        element.dx = n.dy.data();
        expect_names_its_memory(element, n.memory());
        n.dy.expect_near([&](auto row, auto c) { return dx.at(row, c); }, 0);
      }
    }
  }
}

TYPED_TEST(Normalisation, BackwardBehindAnAdditionMasksTheGradientInPlace) {
  for (const Activation activation : {Activation::relu, Activation::gelu}) {
    Norm<TypeParam> n(41, 20);
    n.find_statistics();
    Normalise<TypeParam> forward = n.forward(activation);
    forward.residual = n.residual.data();
    run_on_host(forward);
    const TestMap<TypeParam> dy = n.dy;
    const auto g = [&](auto row, auto c) { return dy.at(row, c) * slope_of(activation, n.pre(row, c, true)); };
    NormaliseBackwardSums<TypeParam> sums = n.sums(activation);
    (activation == Activation::relu ? sums.y : sums.residual) = activation == Activation::relu ? n.y.data() : n.residual.data();
    sums.masked = n.dy.data();
    expect_names_its_memory(sums, n.memory());
    n.dy.expect_near(g);
    run_on_host(n.finish_sums());
    run_on_host(n.backward(Activation::none));
    n.dx.expect_near([&](auto row, auto c) { return expected_dx(n, row, c, g); }, 2 * tolerance<TypeParam>());
  }
}

// Rows in the order of a grid's threads: every third, from either end.
template <class Element, class Take>
void in_threads(const Element& element, bool backwards, const Take& take) {
  element.with_column([&]<class Column>(ColumnType<Column>) {
    for (std::int64_t pack = 0; pack < element.packs; ++pack) {
      for (std::int32_t thread = 0; thread < 3; ++thread) {
        const RowWalk walk{thread, 3, (static_cast<std::int32_t>(element.rows) - thread + 2) / 3};
        take(Column(element, pack), backwards ? walk.reversed() : walk);
      }
    }
  });
}

TYPED_TEST(Normalisation, MapsDoNotDependOnTheOrderOfRows) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    Norm<TypeParam> n(41, 20);
    n.find_statistics();
    run_on_host(n.sums(activation));
    run_on_host(n.finish_sums());
    run_on_host(n.forward(activation));
    run_on_host(n.backward(activation));
    const TestMap<TypeParam> y = n.y, dx = n.dx;
    for (const bool backwards : {false, true}) {
      for (TestMap<TypeParam>* map : {&n.y, &n.dx}) map->fill(9);
      const auto take = [](const auto& column, const RowWalk& walk) { take_rows(column, walk); };
      in_threads(n.forward(activation), backwards, take);
      in_threads(n.backward(activation), backwards, take);
      n.y.expect_near([&](auto row, auto c) { return y.at(row, c); }, 0);
      n.dx.expect_near([&](auto row, auto c) { return dx.at(row, c); }, 0);
    }
  }
}

TYPED_TEST(Normalisation, ColumnSumsAreTheGradientOfABias) {
  for (const std::int64_t rows : {1, 3, 4000}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      TestMap<TypeParam> x(rows, channels);
      TestMap<float> sums(1, channels);
      x.fill(1);
      std::vector<float> partial(partial_bytes(rows, x.row_packs(), 1) / sizeof(float));
      expect_names_its_memory(ColumnSums<TypeParam>{x.data(), rows, x.row_packs(), partial.data()},
                              {x.bytes(), bytes_of(partial)});
      const FinishSums finish{partial.data(), chunks_of(rows, x.row_packs()), x.pitch(), 1, {sums.data(), nullptr}};
      expect_names_its_memory(finish, {bytes_of(partial), sums.bytes()});
      sums.expect_near(
          [&](auto, auto c) {
            double sum = 0;
            for (std::int64_t row = 0; row < rows; ++row) sum += x.at(row, c);
            return sum;
          },
          1e-4);
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
