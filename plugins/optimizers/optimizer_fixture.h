// An optimizer against its formula in double, on the CPU and on the simulated GPU, in float32 and with weights mirrored in bf16.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "millrace/backend/state_plan.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/harness.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"
#include "testkit/precisions.h"

namespace millrace {

using testkit::table;

// One update of one parameter: the previous `value` and `states`, which the formula changes. `t`: number of updates, including
// this one.
struct FormulaStep {
  double rate, decay;
  int t;
  const std::vector<double>& gradient;
  std::vector<double>& value;
  std::map<std::string, std::vector<double>>& states;
  std::size_t rows;  // rows of the parameter as a matrix
};
using Formula = std::function<void(const FormulaStep& step)>;

inline double length_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// For formulas that treat every element separately.
inline Formula by_element(std::function<void(const FormulaStep& step, std::size_t i)> formula) {
  return [formula = std::move(formula)](const FormulaStep& step) {
    for (std::size_t i = 0; i < step.value.size(); ++i) formula(step, i);
  };
}

inline const Registry& optimizer_test_backends() {
  static const Registry registry = [] {
    Registry made;
    load_plugin(made, MILLRACE_PLUGINS "/cpu.so");
    load_plugin(made, MILLRACE_BINARY_DIR "/tests/simulated/simulated.so");
    return made;
  }();
  return registry;
}

inline std::vector<float> drawn(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// A replica with gradients set by hand. Weights are decayed by 0.1; other parameters are not, and have twice the rate.
class OptimizerTrial {
 public:
  static constexpr double kRate = 0.05, kDecay = 0.1;

  // An optimizer of scope `matrix` updates the weights, and "sgd" the others.
  OptimizerTrial(const std::string& backend, Precision precision, const std::shared_ptr<const Optimizer>& optimizer)
      : OptimizerTrial(backend, precision,
                       optimizer->scope() == OptimizerScope::matrix ? Optimizers{optimizer, testkit::make_optimizer("sgd")}
                                                                    : Optimizers{optimizer, optimizer}) {}

  // The first optimizer is for the weights.
  using Optimizers = std::array<std::shared_ptr<const Optimizer>, 2>;
  OptimizerTrial(const std::string& backend, Precision precision, const Optimizers& optimizers,
                 std::shared_ptr<const Network> network = small_network())
      : network_(std::move(network)), device_(optimizer_test_backends().backends().find(backend)->create()->open(0, {})) {
    CompileOptions options;
    options.train_batch = 2;
    options.precision = precision;
    OptimizerSpec& update = options.request.update;
    update.optimizers.assign(optimizers.begin(), optimizers.end());
    for (const Parameter& parameter : network_->parameters) {
      const bool decayed = parameter.shape.rank() > 1;
      update.optimizer_of.push_back(decayed ? 0 : 1);
      update.decay.push_back(decayed ? kDecay : 0);
      update.rate_factor.push_back(decayed ? 1 : 2);
    }
    replica_ = device_->compile(*network_, options);
    replica_->start();
    for_each_trained([&](int p, std::size_t size) { replica_->write(kValue, p, drawn(size, static_cast<std::uint64_t>(p))); });
  }

  static std::shared_ptr<const Network> small_network() {
    return testkit::network_from_text(R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv", op = "conv", out = 13, kernel = 3 }, { name = "bn", op = "batch_norm" }, { op = "relu" },
  { name = "fc", op = "linear", out = 5 },
])");
  }

  Device& device() { return *device_; }
  Replica& replica() { return *replica_; }  // with one bucket
  const Network& network() const { return *network_; }
  void for_each_trained(const std::function<void(int p, std::size_t size)>& body) const {
    for (int p = 0; p < static_cast<int>(network_->parameters.size()); ++p) {
      const Parameter& parameter = network_->parameters[static_cast<std::size_t>(p)];
      if (parameter.trainable && !parameter.statistic) body(p, static_cast<std::size_t>(parameter.shape.elements()));
    }
  }
  static std::vector<float> gradient(int p, std::size_t size, std::uint64_t step) {
    return drawn(size, 100 * (step + 1) + static_cast<std::uint64_t>(p));
  }

  void step(std::uint64_t number) {
    for_each_trained([&](int p, std::size_t size) { replica_->write(kGradient, p, gradient(p, size, number)); });
    UpdateStep update;
    update.step = update.updates_done = number;
    update.learning_rate = kRate;
    for (std::size_t b = 0; b < replica_->buckets().size(); ++b) replica_->update(static_cast<int>(b), update, nullptr);
    replica_->finish();
  }

 private:
  std::shared_ptr<const Network> network_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Replica> replica_;
};

inline void expect_near(const std::vector<float>& found, const std::vector<double>& expected, const std::string& what,
                        double tolerance = 2e-5) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << ", element " << i;
  }
}

// `tolerance`: for values; states are compared as float32.
inline void expect_follows(OptimizerTrial& trial, const Optimizer& optimizer, const Formula& formula, double tolerance = 2e-5) {
  struct Expected {
    std::vector<double> value;
    std::map<std::string, std::vector<double>> states;
  };
  std::map<int, Expected> expected;
  const auto shape_of = [&](int p) { return trial.network().parameters[static_cast<std::size_t>(p)].shape; };
  const auto for_each_updated = [&](const std::function<void(int p, std::size_t size)>& body) {
    trial.for_each_trained([&](int p, std::size_t size) {
      if (optimizer.scope() != OptimizerScope::matrix || shape_of(p).rank() > 1) body(p, size);
    });
  };
  for_each_updated([&](int p, std::size_t) {
    const std::vector<float> values = trial.replica().read(kValue, p);
    expected[p].value.assign(values.begin(), values.end());
    const Parameter& parameter = trial.network().parameters[static_cast<std::size_t>(p)];
    for (const OptimizerState& state : optimizer.states()) {
      const auto numbers = static_cast<std::size_t>(shape_of_state(state.shape, parameter).elements());
      expected[p].states[state.name].assign(numbers, state.initial);
    }
  });
  for (int step = 0; step < 5; ++step) {
    trial.step(static_cast<std::uint64_t>(step));
    for_each_updated([&](int p, std::size_t size) {
      Expected& of = expected[p];
      const std::vector<float> drawn_now = OptimizerTrial::gradient(p, size, static_cast<std::uint64_t>(step));
      const std::vector<double> gradient(drawn_now.begin(), drawn_now.end());
      const bool decayed = shape_of(p).rank() > 1;
      formula({decayed ? OptimizerTrial::kRate : 2 * OptimizerTrial::kRate, decayed ? OptimizerTrial::kDecay : 0, step + 1,
               gradient, of.value, of.states, static_cast<std::size_t>(shape_of(p)[0])});
      const std::string where =
          trial.network().parameters[static_cast<std::size_t>(p)].name + " after step " + std::to_string(step);
      expect_near(trial.replica().read(kValue, p), of.value, "value of " + where, tolerance);
      for (const auto& [name, values] : of.states) expect_near(trial.replica().read(name, p), values, name + " of " + where);
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

// `formula` gets the optimizer's states in FormulaStep::states. `in_bf16`: tolerance if the optimizer's products use bf16.
inline void expect_follows(const std::string& name, const Value& parameters, const Formula& formula, double in_bf16 = 2e-5) {
  const std::shared_ptr<const Optimizer> optimizer = testkit::make_optimizer(name, parameters);
  for (const char* backend : {"cpu", "simulated"}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      if (!testkit::computes(*optimizer_test_backends().backends().find(backend), precision)) continue;
      SCOPED_TRACE(std::string(backend) + ", " + to_string(precision) + ", " + to_toml(parameters));
      OptimizerTrial trial(backend, precision, optimizer);
      expect_follows(trial, *optimizer, formula, precision == Precision::bf16 ? in_bf16 : 2e-5);
    }
  }
}

}  // namespace millrace
