// Optimizers by parameter: one for weights, another one for biases and batch norm.
#include "millrace/optimizer.h"
#include "optimizer_fixture.h"

namespace millrace {
namespace {

bool is_weight(const OptimizerTrial& trial, int p) {
  return trial.network().parameters[static_cast<std::size_t>(p)].shape.rank() > 1;
}

std::size_t planned(OptimizerTrial& trial, const std::string& what) {
  for (const MemoryPlan::Item& item : trial.replica().memory_plan().items) {
    if (item.what == what) return item.bytes;
  }
  return 0;
}

// Both keep a state "momentum", "rmsprop" keeps "variance" too.
OptimizerTrial::Optimizers two_optimizers() {
  return {testkit::make_optimizer("sgd", table({{"momentum", Value(0.5)}})),
          testkit::make_optimizer("rmsprop", table({{"momentum", Value(0.9)}}))};
}

class OptimizersByParameter : public testing::TestWithParam<const char*> {};

TEST_P(OptimizersByParameter, UpdateAsEachOfThemAloneWould) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (!testkit::computes(*optimizer_test_backends().backends().find(GetParam()), precision)) continue;
    const auto [first, second] = two_optimizers();
    OptimizerTrial both(GetParam(), precision, {first, second}), weights(GetParam(), precision, {first, first}),
        others(GetParam(), precision, {second, second});
    for (std::uint64_t step = 0; step < 4; ++step) {
      for (OptimizerTrial* trial : {&both, &weights, &others}) trial->step(step);
    }
    both.for_each_trained([&](int p, std::size_t) {
      OptimizerTrial& alone = is_weight(both, p) ? weights : others;
      for (const std::string_view state : {kValue, std::string_view("momentum")}) {
        EXPECT_EQ(both.replica().read(state, p), alone.replica().read(state, p)) << state << " of parameter " << p;
      }
      if (is_weight(both, p)) return;
      EXPECT_EQ(both.replica().read("variance", p), others.replica().read("variance", p));
    });
  }
}

TEST_P(OptimizersByParameter, KeepOnlyTheStatesOfTheirOptimizer) {
  const auto [first, second] = two_optimizers();
  OptimizerTrial both(GetParam(), Precision::fp32, {first, second}), others(GetParam(), Precision::fp32, {second, second});
  EXPECT_EQ(both.replica().states(), (std::vector<std::string>{"value", "gradient", "momentum", "variance"}));
  EXPECT_EQ(planned(both, "momentum of weights"), planned(others, "momentum of weights"));
  EXPECT_GT(planned(both, "variance of weights"), 0U);
  EXPECT_LT(planned(both, "variance of weights"), planned(others, "variance of weights") / 4);
  both.for_each_trained([&](int p, std::size_t size) {
    if (!is_weight(both, p)) return;
    EXPECT_THROW(both.replica().read("variance", p), Error);
    EXPECT_THROW(both.replica().write("variance", p, std::vector<float>(size)), Error);
  });
}

TEST_P(OptimizersByParameter, StatesAreWrittenWhereTheyAreRead) {
  const auto [first, second] = two_optimizers();
  OptimizerTrial both(GetParam(), Precision::fp32, {first, second});
  both.for_each_trained(
      [&](int p, std::size_t size) { both.replica().write("momentum", p, drawn(size, static_cast<std::uint64_t>(p))); });
  both.for_each_trained([&](int p, std::size_t size) {
    EXPECT_EQ(both.replica().read("momentum", p), drawn(size, static_cast<std::uint64_t>(p))) << p;
    if (is_weight(both, p)) return;
    EXPECT_EQ(both.replica().read("variance", p), std::vector<float>(size, 0.0F)) << p;
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, OptimizersByParameter, testing::Values("cpu", "simulated"));

}  // namespace
}  // namespace millrace
