// What every update rule has to do: keep padding zero, compute the same bits on every processor, and keep its states where they
// can be read, written and gone on from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "millrace/vectorised.h"
#include "synthetic.h"
#include "testkit/host_rule.h"
#include "testkit/plain.h"

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

class EveryRule : public testing::TestWithParam<std::string> {
 protected:
  // With its defaults; and with every number at 0.5 and every switch on, where the rule accepts that.
  void SetUp() override {
    Value other;
    for (const ParamInfo& param : type().params) {
      if (param.type == "number") other.set(param.name, Value(0.5));
      if (param.type == "true or false") other.set(param.name, Value(true));
    }
    for (const Value& table : {Value(), other}) {
      Diagnostics errors;
      if (auto rule = type().create(table, GetParam(), errors)) rules_.push_back(std::move(rule));
    }
    ASSERT_FALSE(rules_.empty());
  }
  static const RuleType& type() { return *registry().rule(GetParam()); }
  std::vector<std::shared_ptr<const Rule>> rules_;
};

TEST_P(EveryRule, DescribesItself) {
  EXPECT_EQ(type().name, GetParam());
  EXPECT_FALSE(type().text.empty());
  EXPECT_FALSE(type().plugin.empty());
  std::set<std::string> names = {std::string(kValue), std::string(kGradient)};
  for (const RuleState& state : type().states) EXPECT_TRUE(names.insert(state.name).second) << state.name << " is taken";
  const StageType* optimizer = registry().stage("optimizer");
  for (const ParamInfo& param : type().params) {
    EXPECT_FALSE(param.text.empty()) << param.name << " has no text";
    const auto same = [&](const ParamInfo& other) { return other.name == param.name; };
    EXPECT_TRUE(optimizer == nullptr || std::ranges::none_of(optimizer->params, same)) << param.name << " is the optimizer's";
  }
}

TEST_P(EveryRule, KeepsPaddingZero) {
  for (const auto& rule : rules_) {
    OneParameter zeros(*rule);
    for (std::uint64_t done = 0; done < 4; ++done) zeros.update(done, done % 2 == 0 ? 0.5F : 0);
    for (std::size_t i = 0; i < OneParameter::kSize; ++i) ASSERT_EQ(zeros.array(0)[i], 0) << "element " << i;
  }
}

TEST_P(EveryRule, HasTheSameBitsForAnyTeamAndInstructionSet) {
  const InstructionSet best = instruction_set();
  if (best == InstructionSet::plain) GTEST_SKIP() << "backend 'cpu' needs AVX2";
  for (const auto& rule : rules_) {
    const auto trained = [&](InstructionSet set, std::int64_t units) {
      use_instruction_set(set);
      OneParameter parameter(*rule);
      parameter.draw(0, 1);
      for (std::uint64_t done = 0; done < 3; ++done) {
        parameter.draw(1, 2 + done);
        parameter.update(done, 0.25F, units);
      }
      use_instruction_set(best);
      return parameter;
    };
    const OneParameter expected = trained(best, OneParameter::kPacks);
    EXPECT_TRUE(trained(best, 1).same_bits(expected)) << "depends on how work is shared out";
    EXPECT_TRUE(trained(InstructionSet::avx2, 2).same_bits(expected)) << "depends on the instruction set";
  }
}

struct PlainStepKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value) const { value -= n.rate * gradient; }
};

// Keeps nothing. It updates the vectors beside a rule of scope `matrix`.
class PlainStep {
 public:
  struct Params {};
  static void describe(RuleDescription<Params>& d) { d.name("plain_step").text("A step along the gradient."); }
  explicit PlainStep(const Params&) {}
  PlainStepKernel kernel(std::uint64_t) const { return {}; }
};

UpdateRule update_by(const std::shared_ptr<const Rule>& rule, const Network& network) {
  UpdateRule update;
  update.decay.assign(network.parameters.size(), 0.1);
  if (!rule) return update;
  update.rules = {rule};
  if (rule->scope() != RuleScope::matrix) return update;
  Diagnostics errors;
  update.rules.push_back(rule_type<PlainStep>().create({}, "", errors));
  for (const Parameter& parameter : network.parameters) update.rule_of.push_back(parameter.shape.rank() > 1 ? 0 : 1);
  return update;
}

// On every backend: a replica trained by hand.
class RuledReplica {
 public:
  RuledReplica(Device& device, const Network& network, const std::shared_ptr<const Rule>& rule) : network_(network), rule_(rule) {
    CompileOptions options;
    options.train_batch = 4;
    options.request.update = update_by(rule, network);
    replica_ = device.compile(network_, options);
    replica_->start();
    for (int p = 0; p < parameters(); ++p) replica_->write(kValue, p, drawn(p, 0));
  }
  int parameters() const { return static_cast<int>(network_.parameters.size()); }
  std::vector<int> parameters_with(const std::string& state) const {
    std::vector<int> found;
    for (int p = 0; p < parameters(); ++p) {
      const bool follows =
          rule_->scope() != RuleScope::matrix || network_.parameters[static_cast<std::size_t>(p)].shape.rank() > 1;
      if (follows || state == kValue || state == kGradient) found.push_back(p);
    }
    return found;
  }
  std::vector<float> drawn(int p, std::uint64_t seed) const {
    Parameter parameter = network_.parameters[static_cast<std::size_t>(p)];
    parameter.initialiser = {"uniform", 0.5};
    return initial_values(parameter, seed);
  }
  void update(std::uint64_t done) {
    for (int p = 0; p < parameters(); ++p) replica_->write(kGradient, p, drawn(p, 1 + done));
    UpdateStep step;
    step.step = step.updates_done = done;
    step.learning_rate = 0.1;
    for (std::size_t b = 0; b < replica_->buckets().size(); ++b) replica_->update(static_cast<int>(b), step, nullptr);
    replica_->finish();
  }
  Replica& operator*() { return *replica_; }
  Replica* operator->() { return replica_.get(); }

 private:
  Network network_;
  std::shared_ptr<const Rule> rule_;  // null: none
  std::unique_ptr<Replica> replica_;
};

template <class Body>  // body(device, network)
void on_every_backend(const Body& body) {
  for (const std::string& name : backend_names()) {
    const std::shared_ptr<Backend> backend = with_simulation().backend(name)->create();
    if (backend->devices().empty()) continue;
    SCOPED_TRACE(name);
    body(*backend->open(0, {}), testkit::small_network(kImage, 6, 3));
  }
}

TEST_P(EveryRule, ItsStatesAreListedAndGoOnBitForBit) {
  on_every_backend([&](Device& device, const Network& network) {
    for (const auto& rule : rules_) {
      RuledReplica whole(device, network, rule), second(device, network, rule);
      std::vector<std::string> expected = {std::string(kValue), std::string(kGradient)};
      for (const RuleState& state : rule->states()) expected.push_back(state.name);
      EXPECT_EQ(whole->states(), expected);
      for (std::uint64_t done = 0; done < 3; ++done) whole.update(done);
      for (const std::string& state : whole->states()) {
        for (const int p : whole.parameters_with(state)) second->write(state, p, whole->read(state, p));
      }
      for (std::uint64_t done = 3; done < 5; ++done) whole.update(done), second.update(done);
      for (const std::string& state : whole->states()) {
        for (const int p : whole.parameters_with(state)) EXPECT_EQ(whole->read(state, p), second->read(state, p)) << state;
      }
    }
  });
}

TEST_P(EveryRule, MemoryPlansHoldItsStatesAndNoOthers) {
  on_every_backend([&](Device& device, const Network& network) {
    const auto planned = [&](const std::shared_ptr<const Rule>& rule) {
      std::vector<std::string> names;
      for (const MemoryPlan::Item& item : (*RuledReplica(device, network, rule)).memory_plan().items) names.push_back(item.what);
      return names;
    };
    for (const auto& rule : rules_) {
      std::vector<std::string> expected = planned(nullptr);
      for (const RuleState& state : rule->states()) expected.push_back(state.name + " of weights");
      if (rule->scope() != RuleScope::element) expected.emplace_back("norms of parameters");
      if (rule->scope() == RuleScope::matrix) expected.emplace_back("workspace of updates");
      std::vector<std::string> found = planned(rule);
      std::ranges::sort(expected);
      std::ranges::sort(found);
      EXPECT_EQ(found, expected);
    }
  });
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().rules()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Discovered, EveryRule, testing::ValuesIn(rule_names()), by_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryRule);

}  // namespace
}  // namespace millrace::conformance
