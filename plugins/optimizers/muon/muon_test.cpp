#include <algorithm>

#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

#include "testkit/messages.h"

#include "testkit/files.h"

namespace millrace {
namespace {

using Matrix = std::vector<double>;  // row-major

Matrix transposed(const Matrix& x, std::size_t rows) {
  const std::size_t columns = x.size() / rows;
  Matrix result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i % columns * rows + i / columns] = x[i];
  return result;
}

Matrix product(const Matrix& a, const Matrix& b, std::size_t inner) {
  const std::size_t rows = a.size() / inner, columns = b.size() / inner;
  Matrix result(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t c = 0; c < columns; ++c) result[r * columns + c] += a[r * inner + k] * b[k * columns + c];
    }
  }
  return result;
}

// The reference's zeropower_via_newtonschulz5.
Matrix orthogonal(Matrix x, std::size_t rows, int steps) {
  const std::size_t columns = x.size() / rows;
  if (rows > columns) return transposed(orthogonal(transposed(x, rows), columns, steps), columns);
  const double length = length_of(x) + 1e-7;
  for (double& value : x) value /= length;
  for (int step = 0; step < steps; ++step) {
    const Matrix a = product(x, transposed(x, rows), columns), square = product(a, a, rows);
    Matrix b(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * square[i];
    const Matrix moved = product(b, x, rows);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + moved[i];
  }
  return x;
}

Formula formula(double momentum, bool nesterov, int steps, bool normalise) {
  return [=](const FormulaStep& s) {
    const std::size_t columns = s.value.size() / s.rows;
    Matrix unkept(s.value.size()), u(s.value.size());
    Matrix& v = momentum == 0 ? unkept : s.states["momentum"];
    for (std::size_t i = 0; i < u.size(); ++i) {
      v[i] = momentum * v[i] + s.gradient[i];
      u[i] = nesterov ? s.gradient[i] + momentum * v[i] : v[i];
    }
    const Matrix x = orthogonal(u, s.rows, steps);
    const double length = normalise ? std::sqrt(static_cast<double>(s.rows)) / length_of(s.value) : 1;
    const double scale = std::sqrt(std::max(1.0, static_cast<double>(s.rows) / static_cast<double>(columns)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = s.value[i] * length;
      s.value[i] = value - s.rate * (s.decay * value + scale * x[i]);
    }
  };
}

// Elements of these orthogonal matrices are below 1, and off by 0.02 at most from products in bf16; five steps at a rate of 0.05.
constexpr double kInBf16 = 5e-3;

TEST(Muon, FollowsItsFormula) {
  expect_follows("muon", {}, formula(0.95, true, 5, false), kInBf16);
  expect_follows("muon", table({{"momentum", Value(0.0)}, {"nesterov", Value(false)}}), formula(0, false, 5, false), kInBf16);
}

TEST(Muon, NormalisesWeightsAsAirbenchDoes) {
  const Value parameters =
      table({{"momentum", Value(0.6)}, {"nesterov", Value(true)}, {"steps", Value(std::int64_t{3})}, {"normalise", Value(true)}});
  expect_follows("muon", parameters, formula(0.6, true, 3, true), kInBf16);
}

// "tall" has more rows than columns, so it is transposed, and its steps are longer; "deep" is a filter for each channel.
TEST(Muon, UpdatesTallMatricesAndFiltersOfGroups) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 6, width = 6 }
layers = [
  { name = "deep", op = "conv", out = 12, kernel = 3, groups = 3, bias = false },
  { name = "tall", op = "conv", out = 90, kernel = 1, bias = false },
  { name = "fc", op = "linear", out = 5, bias = false },
])");
  for (const char* backend : {"cpu", "simulated"}) {
    SCOPED_TRACE(backend);
    OptimizerTrial trial(backend, Precision::fp32, {testkit::make_optimizer("muon"), testkit::make_optimizer("sgd")}, network);
    expect_follows(trial, *testkit::make_optimizer("muon"), formula(0.95, true, 5, false));
  }
}

TEST(Muon, AParameterAtRestIsNotNormalised) {
  OptimizerTrial trial("cpu", Precision::fp32, testkit::make_optimizer("muon", table({{"normalise", Value(true)}})));
  const int fc = trial.network().find_parameter("fc.weight");
  const std::vector<float> before = trial.replica().read(kValue, fc);
  UpdateStep step;
  step.learning_rate = 0;
  trial.replica().write(kGradient, fc, before);
  trial.replica().update(0, step, nullptr);
  EXPECT_EQ(trial.replica().read(kValue, fc), before);
}

// Biases and batch norm.
TEST(Muon, VectorsAreAMistakeThatIsAnsweredWithAGroup) {
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] {
                   const auto muon = testkit::make_optimizer("muon");
                   const OptimizerTrial trial("cpu", Precision::fp32, {muon, muon});
                 }).what());
}

}  // namespace
}  // namespace millrace
