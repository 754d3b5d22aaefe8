#include "doubtful_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace millrace {
namespace {

constexpr double kLeast = 1e-8;  // with gradients of 1, less changes no float32 weight of 0.1

// Ten times the usual rate. With optimizers that divide a gradient by its size, a weight moves by about the rate in each step.
struct Most {
  std::string_view optimizer;
  double rate;
  std::string_view usual;
};
constexpr std::array<Most, 9> kMost{{{"sgd", 10, "0.001 to 1"},
                                     {"lars", 100, "0.1 to 10"},
                                     {"muon", 10, "0.01 to 1"},
                                     {"adam", 0.05, "0.0001 to 0.01"},
                                     {"adamw", 0.05, "0.0001 to 0.01"},
                                     {"lion", 0.01, "0.00001 to 0.001"},
                                     {"rmsprop", 1, "0.0001 to 0.1"},
                                     {"adafactor", 1, "0.001 to 0.1"},
                                     {"lamb", 1, "0.001 to 0.1"}}};
constexpr Most kAnyOptimizer{"", 1000, "0.00001 to 10"};

// Schedules rise and fall slowly: sampled steps suffice.
double largest_rate(const Schedule& schedule, std::uint64_t steps) {
  constexpr std::uint64_t kLooks = 1000;
  double largest = 0;
  const std::uint64_t stride = std::max<std::uint64_t>(steps / kLooks, 1);
  for (std::uint64_t step = 0; step < steps; step += stride) largest = std::max(largest, schedule.rate(step));
  return largest;
}

}  // namespace

std::string doubtful_rate(std::string_view optimizer, const Schedule& schedule, std::uint64_t steps) {
  const auto* const known = std::ranges::find(kMost, optimizer, &Most::optimizer);
  const Most& most = known == kMost.end() ? kAnyOptimizer : *known;
  const double rate = largest_rate(schedule, steps);
  if (steps == 0 || (rate >= kLeast && rate <= most.rate)) return {};
  if (rate == 0) return "the learning rate is 0 in all steps, so that nothing is trained";
  return fmt::format(
      "a learning rate of {:g} is too {} for '{}' by orders of magnitude, where {} is usual; --find-rate proposes one", rate,
      rate < kLeast ? "small" : "large", optimizer, most.usual);
}

std::string doubtful_decay(double weight_decay, const Schedule& schedule, std::uint64_t steps) {
  const double taken = weight_decay * largest_rate(schedule, steps);
  if (taken < 0.1) return {};
  constexpr double kExplodes = 2;  // a weight changes its sign and grows
  return fmt::format("learning rate x weight_decay = {:g}: {}. A weight_decay of 0.00001 to 0.1 is usual, found {:g}", taken,
                     taken > kExplodes ? "weights explode" : "each step takes that share of every weight", weight_decay);
}

}  // namespace millrace
