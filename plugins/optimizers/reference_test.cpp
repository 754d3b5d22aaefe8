// All optimizers against PyTorch's optimizers over 20 steps: tests/reference/make_optimizers.py.
#include <fstream>
#include <nlohmann/json.hpp>

#include "optimizer_fixture.h"
#include "testkit/host_optimizer.h"
#include "testkit/reference_value.h"

namespace millrace {
namespace {

using testkit::reference_value;

Value value_of(const nlohmann::json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<std::int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  Value made;
  for (const auto& [key, member] : json.items()) made.set(key, value_of(member));
  return made;
}

// Arrays of whole packs, with zeros after the last element.
struct alignas(32) Pack {
  float values[kUpdatePack];
};

std::vector<float> trained(const Optimizer& optimizer, const nlohmann::json& file, std::uint32_t parameter) {
  const std::uint32_t size = file["sizes"][parameter];
  std::vector<std::vector<Pack>> arrays(2 + optimizer.states().size(), std::vector<Pack>((size + kUpdatePack - 1) / kUpdatePack));
  UpdateSegment segment;
  segment.decay = parameter == 0 ? file["decay"].get<float>() : 0.0F;
  const std::int64_t rows = file["rows"][parameter];
  Squares squares[2];
  UpdateArguments at;
  at.value = arrays[0].data()->values;
  at.gradient = arrays[1].data()->values;
  for (std::size_t s = 2; s < arrays.size(); ++s) at.states[s - 2] = arrays[s].data()->values;
  at.packs = static_cast<std::int64_t>(arrays[0].size());
  testkit::set_matrix({rows, size / rows}, segment, at);
  at.learning_rate = file["rate"].get<float>();
  at.squares = squares;
  at.partial_squares = squares + 1;
  at.chunks = 1;
  for (std::uint32_t i = 0; i < size; ++i) at.value[i] = reference_value(i, parameter);
  for (std::uint32_t step = 0; step < file["steps"].get<std::uint32_t>(); ++step) {
    for (std::uint32_t i = 0; i < size; ++i) arrays[1].data()->values[i] = reference_value(i, 2 + 2 * step + parameter);
    testkit::update_on_host(optimizer, at, {.updates_done = step});
  }
  return {at.value, at.value + size};
}

double relative_difference(const std::vector<float>& values, const std::vector<double>& expected) {
  double far = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    far += std::pow(static_cast<double>(values.at(i)) - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(far / norm);
}

// At most three times the error of PyTorch's own float32 after equally many steps.
TEST(Optimizers, AgreeWithPyTorchOverTwentySteps) {
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(MILLRACE_SOURCE_DIR "/tests/reference/optimizers.json"));
  std::set<std::string> seen;
  for (const nlohmann::json& entry : file["cases"]) {
    SCOPED_TRACE(entry["type"].get<std::string>() + " " + entry["parameters"].dump());
    seen.insert(entry["type"].get<std::string>());
    const auto optimizer = testkit::make_optimizer(entry["type"], value_of(entry["parameters"]));
    for (std::uint32_t parameter = 0; parameter < file["sizes"].size(); ++parameter) {
      const double of_pytorch = entry["float64_difference"][parameter];
      const double ours = relative_difference(trained(*optimizer, file, parameter), entry["values"][parameter]);
      EXPECT_LE(ours, 3 * of_pytorch) << "parameter " << parameter << ": " << ours / of_pytorch << " times PyTorch's error";
    }
  }
  EXPECT_EQ(seen.size(), testkit::optimizer_registry().optimizers().size()) << "an optimizer without a reference";
}

// Shares that never fade, and numbers that floats cannot divide by.
TEST(Optimizers, RefuseParametersThatTheyCannotUse) {
  const std::tuple<const char*, const char*, double> mistakes[] = {{"sgd", "momentum", 1},
                                                                   {"adam", "epsilon", 0},
                                                                   {"adam", "beta1", 1},
                                                                   {"adam", "beta2", 1},
                                                                   {"adamw", "epsilon", 0},
                                                                   {"adamw", "beta1", 1},
                                                                   {"adamw", "beta2", 1},
                                                                   {"lion", "beta1", 1},
                                                                   {"lion", "beta2", 1},
                                                                   {"lamb", "epsilon", 0},
                                                                   {"lamb", "beta1", 1},
                                                                   {"lamb", "beta2", 1},
                                                                   {"lars", "momentum", 1},
                                                                   {"lars", "trust", 0},
                                                                   {"rmsprop", "epsilon", 0},
                                                                   {"rmsprop", "alpha", 1},
                                                                   {"rmsprop", "momentum", 1},
                                                                   {"muon", "momentum", 1},
                                                                   {"muon", "momentum", 0},
                                                                   {"adafactor", "beta2_decay", 0},
                                                                   {"adafactor", "epsilon1", 1e-30},
                                                                   {"adafactor", "clip_threshold", 0}};
  for (const auto& [name, key, value] : mistakes)
    EXPECT_THROW(testkit::make_optimizer(name, table({{key, Value(value)}})), Error) << name << " " << key;
  EXPECT_THROW(testkit::make_optimizer("sgd", table({{"nesterov", Value(true)}})), Error) << "without a momentum";
}

TEST(Rmsprop, KeepsWhatItsParametersAskFor) {
  const auto names = [](const Value& parameters) {
    std::vector<std::string> kept;
    const auto optimizer = testkit::make_optimizer("rmsprop", parameters);
    for (const OptimizerState& state : optimizer->states()) kept.push_back(state.name);
    return kept;
  };
  EXPECT_EQ(names({}), (std::vector<std::string>{"variance"}));
  EXPECT_EQ(names(table({{"momentum", Value(0.9)}})), (std::vector<std::string>{"variance", "momentum"}));
  EXPECT_EQ(names(table({{"centered", Value(true)}})), (std::vector<std::string>{"variance", "mean"}));
}

}  // namespace
}  // namespace millrace
