// What every update rule has to do on the host: keep padding zero, compute the same bits on every processor, and go on from
// states that were copied.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "millrace/error.h"
#include "millrace/kernels/vectorised.h"
#include "testkit/conformance.h"
#include "testkit/host_rule.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

struct alignas(32) Pack {
  float values[kUpdatePack];
};

// One parameter of 3000 packs: value, gradient and the rule's states.
class OneParameter {
 public:
  static constexpr std::int64_t kPacks = 3000;
  static constexpr std::size_t kSize = kPacks * kUpdatePack;

  explicit OneParameter(const Rule& rule) : rule_(rule), arrays_(2 + rule.states().size(), std::vector<Pack>(kPacks)) {
    for (std::size_t s = 0; s < rule.states().size(); ++s) std::fill_n(array(2 + s), kSize, rule.states()[s].initial);
  }
  float* array(std::size_t which) { return arrays_[which].data()->values; }
  void draw(std::size_t which, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal;
    std::generate_n(array(which), kSize, [&] { return normal(generator); });
  }
  // `units`: how many are run in one call.
  void update(std::uint64_t updates_done, float decay, std::int64_t units = kPacks) {
    UpdateSegment segment;
    segment.decay = decay;
    segment.rows = 24;
    segment.columns = kSize / 24;
    Squares squares[2];
    UpdateArguments at;
    at.value = array(0);
    at.gradient = array(1);
    for (std::size_t s = 2; s < arrays_.size(); ++s) at.states[s - 2] = array(s);
    at.packs = kPacks;
    at.segments = &segment;
    at.segment_count = 1;
    at.learning_rate = 0.125F;
    at.squares = squares;
    at.partial_squares = squares + 1;
    at.chunks = chunks_of_norms(kPacks);
    testkit::update_on_host(rule_, at, updates_done, [&](const Kernel& kernel, const void* element) {
      const std::int64_t all = kernel.units(element);
      for (std::int64_t first = all; first > 0; first -= units) {  // in any order: from the last
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
  const Rule& rule_;
  std::vector<std::vector<Pack>> arrays_;
};

std::vector<std::shared_ptr<const Rule>> rules_of(const Registry& registry, const std::string& name, Report& report) {
  std::vector<std::shared_ptr<const Rule>> rules = workable_rules(*registry.rule(name));
  report.expect(!rules.empty(), "it is made of no table");
  return rules;
}

void rule_description(const Registry& registry, const std::string& name, Report& report) {
  const RuleType& type = *registry.rule(name);
  check_description(type.name, type.text, type.plugin, type.params, report);
  std::set<std::string> names = {std::string(kValue), std::string(kGradient)};
  for (const RuleState& state : type.states) {
    report.expect(names.insert(state.name).second, fmt::format("the state '{}' has a name that is taken", state.name));
  }
  const StageType* optimizer = registry.stage("optimizer");
  for (const ParamInfo& param : type.params) {
    const auto same = [&](const ParamInfo& other) { return other.name == param.name; };
    report.expect(optimizer == nullptr || std::ranges::none_of(optimizer->params, same),
                  fmt::format("the parameter '{}' is the optimizer's as well", param.name));
  }
}

Answer answer_of(const RuleType& type) {
  return [&type](const Value& table) {
    Diagnostics errors;
    type.create(table, fmt::format("[{}]", type.name), errors);
    return errors.text();
  };
}

void rule_defaults(const Registry& registry, const std::string& name, Report& report) {
  const RuleType& type = *registry.rule(name);
  check_defaults(type.params, type.defaults, answer_of(type), report);
}

void rule_refusals(const Registry& registry, const std::string& name, Report& report) {
  const RuleType& type = *registry.rule(name);
  check_unknown_key(type.params, answer_of(type), report);
}

void padding(const Registry& registry, const std::string& name, Report& report) {
  for (const auto& rule : rules_of(registry, name, report)) {
    OneParameter zeros(*rule);
    for (std::uint64_t done = 0; done < 4; ++done) zeros.update(done, done % 2 == 0 ? 0.5F : 0);
    const float* const values = zeros.array(0);
    report.expect(std::all_of(values, values + OneParameter::kSize, [](float x) { return x == 0; }),
                  "a value that is 0 and has no gradient does not stay 0");
  }
}

OneParameter trained(const Rule& rule, InstructionSet set, std::int64_t units) {
  const InstructionSet before = instruction_set();
  use_instruction_set(set);
  OneParameter parameter(rule);
  parameter.draw(0, 1);
  for (std::uint64_t done = 0; done < 3; ++done) {
    parameter.draw(1, 2 + done);
    parameter.update(done, 0.25F, units);
  }
  use_instruction_set(before);
  return parameter;
}

void bits(const Registry& registry, const std::string& name, Report& report) {
  const InstructionSet best = instruction_set();
  if (best == InstructionSet::plain) return report.not_applicable("backend 'cpu' needs AVX2");
  for (const auto& rule : rules_of(registry, name, report)) {
    const OneParameter expected = trained(*rule, best, OneParameter::kPacks);
    report.expect(trained(*rule, best, 1).same_bits(expected), "its bits depend on how work is shared out");
    report.expect(trained(*rule, InstructionSet::avx2, 2).same_bits(expected), "its bits depend on the instruction set");
  }
}

void rule_state(const Registry& registry, const std::string& name, Report& report) {
  for (const auto& rule : rules_of(registry, name, report)) {
    OneParameter whole(*rule), second(*rule);
    whole.draw(0, 1);
    for (std::uint64_t done = 0; done < 5; ++done) {
      if (done == 3) second.copy_arrays(whole);
      for (OneParameter* each : {&whole, &second}) {
        each->draw(1, 2 + done);
        if (each == &whole || done >= 3) each->update(done, 0.25F);
      }
    }
    report.expect(whole.same_bits(second), "it does not go on from its states to the same bits");
  }
}

constexpr Check kRuleChecks[] = {{"rule", "description", rule_description},
                                 {"rule", "defaults", rule_defaults},
                                 {"rule", "refusals", rule_refusals},
                                 {"rule", "padding", padding},
                                 {"rule", "bits", bits},
                                 {"rule", "state", rule_state}};

}  // namespace

std::span<const Check> rule_checks() { return kRuleChecks; }

}  // namespace millrace::conformance
