#include <limits>

#include "optimizer_fixture.h"

namespace millrace {
namespace {

double root_mean_square(const std::vector<double>& values) {
  return length_of(values) / std::sqrt(static_cast<double>(values.size()));
}

// The paper's algorithm 4 for matrices and 5 for vectors, with PyTorch's places of epsilon.
Formula adafactor_formula(double beta2_decay = -0.8, double epsilon1 = std::numeric_limits<float>::epsilon(),
                          double epsilon2 = 1e-3, double threshold = 1) {
  return [=](const FormulaStep& s) {
    std::vector<double>&rows = s.states["row_variance"], &columns = s.states["column_variance"];
    const std::size_t m = rows.size(), n = columns.size();
    const double share = std::pow(s.t, beta2_decay);
    for (double& row : rows) row *= 1 - share;
    for (double& column : columns) column *= 1 - share;
    for (std::size_t i = 0; i < m * n; ++i) {
      const double square = s.gradient[i] * s.gradient[i];
      rows[i / n] += share * square / static_cast<double>(n);
      columns[i % n] += share * square / static_cast<double>(m);
    }
    double mean = 0;
    for (const double row : rows) mean += row / static_cast<double>(m);
    s.states["mean_variance"][0] = mean;
    std::vector<double> u(m * n);
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double square = n == 1 ? rows[i] : rows[i / n] * columns[i % n] / std::max(mean, epsilon1);
      u[i] = s.gradient[i] / std::sqrt(std::max(square, epsilon1 * epsilon1));
    }
    const double step = std::max(epsilon2, root_mean_square(s.value)) * std::min(s.rate, 1 / std::sqrt(s.t));
    const double clip = std::max(1.0, root_mean_square(u) / threshold);
    for (std::size_t i = 0; i < u.size(); ++i) s.value[i] += -s.rate * s.decay * s.value[i] - step / clip * u[i];
  };
}

TEST(Adafactor, FollowsItsFormula) {
  expect_follows("adafactor", {}, adafactor_formula());
  expect_follows(
      "adafactor",
      table({{"beta2_decay", Value(-0.5)}, {"epsilon1", Value(0.5)}, {"epsilon2", Value(2.0)}, {"clip_threshold", Value(0.25)}}),
      adafactor_formula(-0.5, 0.5, 2, 0.25));
}

// A filter is the matrix (out, in * height * width), whatever the layout of the weights.
TEST(Adafactor, FactorsTallMatricesAndFiltersOfGroups) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "deep", op = "conv", out = 12, kernel = 3, groups = 3, bias = false },
  { name = "tall", op = "conv", out = 90, kernel = 1, bias = false },
  { name = "wide", op = "conv", out = 16, kernel = 5 }, { name = "bn", op = "batch_norm" },
  { name = "fc", op = "linear", out = 5 },
])");
  for (const char* backend : {"cpu", "simulated"}) {
    SCOPED_TRACE(backend);
    const auto adafactor = testkit::make_optimizer("adafactor");
    OptimizerTrial trial(backend, Precision::fp32, {adafactor, adafactor}, network);
    expect_follows(trial, *adafactor, adafactor_formula());
  }
}

// 2 numbers of 4 bytes for each element with adam; here a row, a column and the whole. Columns are padded like the weights: the
// GPU's linear layer reads 8 channels of this input.
TEST(Adafactor, KeepsRowsAndColumnsInsteadOfElements) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 16, width = 16 }
layers = [{ name = "fc", op = "linear", out = 100, bias = false }])");
  const auto bytes = [&](const char* backend, const char* optimizer) {
    OptimizerTrial trial(backend, Precision::fp32, {testkit::make_optimizer(optimizer), testkit::make_optimizer(optimizer)},
                         network);
    std::map<std::string, std::size_t> found;
    for (const MemoryPlan::Item& item : trial.replica().memory_plan().items) found[item.what] = item.bytes;
    return found;
  };
  for (const char* backend : {"cpu", "simulated"}) {
    SCOPED_TRACE(backend);
    auto factored = bytes(backend, "adafactor"), whole = bytes(backend, "adam");
    EXPECT_GE(factored["row_variance of weights"], 100U * 4);
    EXPECT_LE(factored["row_variance of weights"], 128U * 4);
    EXPECT_GE(factored["column_variance of weights"], 768U * 4);
    EXPECT_LE(factored["column_variance of weights"] * 100, whole["variance of weights"]);
    EXPECT_LE(factored["mean_variance of weights"], 64U * 4);
    EXPECT_GE(whole["variance of weights"], 76800U * 4);
    EXPECT_EQ(factored.count("variance of weights"), 0U);
    OptimizerTrial trial(backend, Precision::fp32, {testkit::make_optimizer("adafactor"), testkit::make_optimizer("sgd")},
                         network);
    EXPECT_EQ(trial.replica().state_shape("row_variance", 0), (Shape{100}));
    EXPECT_EQ(trial.replica().state_shape("column_variance", 0), (Shape{768}));
    EXPECT_EQ(trial.replica().state_shape("mean_variance", 0), (Shape{1}));
    EXPECT_EQ(trial.replica().read("column_variance", 0).size(), 768U);
    EXPECT_THROW(trial.replica().write("column_variance", 0, std::vector<float>(76800)), Error);
  }
}

}  // namespace
}  // namespace millrace
