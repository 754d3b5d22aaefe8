// Requirements of every optimizer on the host: keep padding zero, compute exactly the same on every processor, and continue from
// copied states.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "millrace/error.h"
#include "millrace/kernels/vectorised.h"
#include "testkit/conformance.h"
#include "testkit/host_optimizer.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

struct alignas(32) Pack {
  float values[kUpdatePack];
};

// One parameter of 3000 packs: value, gradient and the optimizer's states.
class OneParameter {
 public:
  static constexpr std::int64_t kPacks = 3000;
  static constexpr std::size_t kSize = kPacks * kUpdatePack;

  explicit OneParameter(const Optimizer& optimizer)
      : optimizer_(optimizer), arrays_(2 + optimizer.states().size(), std::vector<Pack>(kPacks)) {
    for (std::size_t s = 0; s < optimizer.states().size(); ++s) std::fill_n(array(2 + s), kSize, optimizer.states()[s].initial);
  }
  float* array(std::size_t which) { return arrays_[which].data()->values; }
  void draw(std::size_t which, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal;
    std::generate_n(array(which), kSize, [&] { return normal(generator); });
  }
  // `units`: number per call.
  void update(const UpdateTime& time, float decay, std::int64_t units = kPacks, float rate = 0.125F) {
    UpdateSegment segment;
    segment.decay = decay;
    Squares squares[2];
    UpdateArguments at;
    at.value = array(0);
    at.gradient = array(1);
    for (std::size_t s = 2; s < arrays_.size(); ++s) at.states[s - 2] = array(s);
    at.packs = kPacks;
    testkit::set_matrix({24, kSize / 24}, segment, at);
    at.learning_rate = rate;
    at.squares = squares;
    at.partial_squares = squares + 1;
    at.chunks = chunks_of_norms(kPacks);
    testkit::update_on_host(optimizer_, at, time, [&](const Kernel& kernel, const void* element) {
      const std::int64_t all = kernel.units(element);
      for (std::int64_t first = all; first > 0; first -= units) {  // in any order: the last first
        kernel.run_on_host(element, std::max<std::int64_t>(first - units, 0), first);
      }
    });
  }
  void copy_arrays(const OneParameter& other) { arrays_ = other.arrays_; }
  bool same_bits(const OneParameter& other) const {
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      if (std::memcmp(arrays_[a].data(), other.arrays_[a].data(), kSize * sizeof(float)) != 0) return false;
    }
    return true;
  }

 private:
  const Optimizer& optimizer_;
  std::vector<std::vector<Pack>> arrays_;
};

std::vector<std::shared_ptr<const Optimizer>> optimizers_of(const Registry& registry, const std::string& name, Report& report) {
  std::vector<std::shared_ptr<const Optimizer>> optimizers = workable_optimizers(*registry.optimizers().find(name));
  report.expect(!optimizers.empty(), "it is made of no table");
  return optimizers;
}

void optimizer_description(const Registry& registry, const std::string& name, Report& report) {
  const OptimizerType& type = *registry.optimizers().find(name);
  check_description(type.name, type.text, type.plugin, type.params, report);
  std::set<std::string> names = {std::string(kValue), std::string(kGradient)};
  for (const OptimizerState& state : type.states) {
    report.expect(names.insert(state.name).second, fmt::format("the state '{}' has a name that is taken", state.name));
  }
  const StageType* optimizer = registry.stages().find("optimizer");
  for (const ParamInfo& param : type.params) {
    const auto same = [&](const ParamInfo& other) { return other.name == param.name; };
    report.expect(optimizer == nullptr || std::ranges::none_of(optimizer->params, same),
                  fmt::format("the parameter '{}' is the optimizer's as well", param.name));
  }
}

Answer answer_of(const OptimizerType& type) {
  return [&type](const Value& table) {
    Diagnostics errors;
    type.create(table, fmt::format("[{}]", type.name), errors);
    return errors.text();
  };
}

void optimizer_defaults(const Registry& registry, const std::string& name, Report& report) {
  const OptimizerType& type = *registry.optimizers().find(name);
  check_defaults(type.params, type.defaults, answer_of(type), report);
}

void optimizer_refusals(const Registry& registry, const std::string& name, Report& report) {
  const OptimizerType& type = *registry.optimizers().find(name);
  check_unknown_key(type.params, answer_of(type), report);
}

void padding(const Registry& registry, const std::string& name, Report& report) {
  for (const auto& optimizer : optimizers_of(registry, name, report)) {
    OneParameter zeros(*optimizer);
    for (std::uint64_t done = 0; done < 4; ++done) zeros.update({.updates_done = done}, done % 2 == 0 ? 0.5F : 0);
    const float* const values = zeros.array(0);
    report.expect(std::all_of(values, values + OneParameter::kSize, [](float x) { return x == 0; }),
                  "a value that is 0 and has no gradient does not stay 0");
  }
}

OneParameter trained(const Optimizer& optimizer, InstructionSet set, std::int64_t units) {
  const InstructionSet before = instruction_set();
  use_instruction_set(set);
  OneParameter parameter(optimizer);
  parameter.draw(0, 1);
  for (std::uint64_t done = 0; done < 3; ++done) {
    parameter.draw(1, 2 + done);
    parameter.update({.updates_done = done}, 0.25F, units);
  }
  use_instruction_set(before);
  return parameter;
}

void bits(const Registry& registry, const std::string& name, Report& report) {
  const InstructionSet best = instruction_set();
  if (best == InstructionSet::plain) return report.not_applicable("backend 'cpu' needs AVX2");
  for (const auto& optimizer : optimizers_of(registry, name, report)) {
    const OneParameter expected = trained(*optimizer, best, OneParameter::kPacks);
    report.expect(trained(*optimizer, best, 1).same_bits(expected), "its bits depend on how work is shared out");
    report.expect(trained(*optimizer, InstructionSet::avx2, 2).same_bits(expected), "its bits depend on the instruction set");
  }
}

void optimizer_state(const Registry& registry, const std::string& name, Report& report) {
  for (const auto& optimizer : optimizers_of(registry, name, report)) {
    OneParameter whole(*optimizer), second(*optimizer);
    whole.draw(0, 1);
    for (std::uint64_t done = 0; done < 5; ++done) {
      if (done == 3) second.copy_arrays(whole);
      for (OneParameter* each : {&whole, &second}) {
        each->draw(1, 2 + done);
        if (each == &whole || done >= 3) each->update({.updates_done = done}, 0.25F);
      }
    }
    report.expect(whole.same_bits(second), "it does not go on from its states to the same bits");
  }
}

// The schedule's momentum replaces the optimizer's own in each step.
void optimizer_momentum(const Registry& registry, const std::string& name, Report& report) {
  bool has_any = false;
  for (const auto& optimizer : optimizers_of(registry, name, report)) {
    if (!optimizer->has_momentum()) continue;
    has_any = true;
    OneParameter own(*optimizer), cycled(*optimizer);
    for (OneParameter* each : {&own, &cycled}) {
      each->draw(0, 1);
      for (std::uint64_t done = 0; done < 2; ++done) {
        each->draw(1, 2 + done);
        UpdateTime time{.updates_done = done};
        if (each == &cycled) time.momentum = 0.75 + 0.125 * static_cast<double>(done);
        each->update(time, 0.25F);
      }
    }
    report.expect(!own.same_bits(cycled), "a schedule's momentum changes nothing");
  }
  if (!has_any) report.not_applicable("it has no momentum that a schedule may change");
}

// Frozen parameters get a rate of 0.
void optimizer_rate(const Registry& registry, const std::string& name, Report& report) {
  for (const auto& optimizer : optimizers_of(registry, name, report)) {
    OneParameter parameter(*optimizer);
    parameter.draw(0, 1);
    for (std::uint64_t done = 0; done < 2; ++done) {
      parameter.draw(1, 2 + done);
      parameter.update({.updates_done = done, .learning_rate = 0.125}, 0.25F);
    }
    const float* const values = parameter.array(0);
    const std::vector<float> before(values, values + OneParameter::kSize);
    parameter.update({.updates_done = 2, .learning_rate = 0}, 0.25F, OneParameter::kPacks, 0);
    report.expect(std::equal(before.begin(), before.end(), values),
                  "a value moves at a learning rate of 0: n.rate multiplies each step");
  }
}

constexpr Check kOptimizerChecks[] = {{"optimizer", "description", optimizer_description},
                                      {"optimizer", "defaults", optimizer_defaults},
                                      {"optimizer", "refusals", optimizer_refusals},
                                      {"optimizer", "padding", padding},
                                      {"optimizer", "bits", bits},
                                      {"optimizer", "rate", optimizer_rate},
                                      {"optimizer", "state", optimizer_state},
                                      {"optimizer", "momentum", optimizer_momentum}};

}  // namespace

std::span<const Check> optimizer_checks() { return kOptimizerChecks; }

}  // namespace millrace::conformance
