// Requirements of every optimizer: keep padding zero, compute exactly the same on every processor, and keep its states where
// they can be read, written and resumed from.
#include <gtest/gtest.h>

#include <algorithm>

#include "discovered.h"
#include "millrace/optimizer.h"
#include "testkit/plain.h"

namespace millrace::conformance {
namespace {

class EveryOptimizer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    optimizers_ = workable_optimizers(type());
    ASSERT_FALSE(optimizers_.empty());
  }
  static const OptimizerType& type() { return *registry().optimizers().find(GetParam()); }
  std::vector<std::shared_ptr<const Optimizer>> optimizers_;
};

TEST_P(EveryOptimizer, DescribesItself) { expect_passes("optimizer", "description", GetParam()); }
TEST_P(EveryOptimizer, AcceptsItsOwnDefaults) { expect_passes("optimizer", "defaults", GetParam()); }
TEST_P(EveryOptimizer, NamesAnUnknownKey) { expect_passes("optimizer", "refusals", GetParam()); }
TEST_P(EveryOptimizer, KeepsPaddingZero) { expect_passes("optimizer", "padding", GetParam()); }
TEST_P(EveryOptimizer, HasTheSameBitsForAnyTeamAndInstructionSet) { expect_passes("optimizer", "bits", GetParam()); }
TEST_P(EveryOptimizer, MovesNoValueOfTheHostAtARateOfZero) { expect_passes("optimizer", "rate", GetParam()); }
TEST_P(EveryOptimizer, GoesOnFromCopiedStates) { expect_passes("optimizer", "state", GetParam()); }
TEST_P(EveryOptimizer, TakesTheSchedulesMomentum) { expect_passes("optimizer", "momentum", GetParam()); }

struct PlainStepKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value) const { value -= n.rate * gradient; }
};

// Has no state. Updates the vectors for an optimizer of scope `matrix`.
class PlainStep {
 public:
  struct Params {};
  static void describe(OptimizerDescription<Params>& d) { d.name("plain_step").text("A step along the gradient."); }
  explicit PlainStep(const Params&) {}
  PlainStepKernel kernel(const UpdateTime&) const { return {}; }
};

OptimizerSpec update_by(const std::shared_ptr<const Optimizer>& optimizer, const Network& network) {
  OptimizerSpec update;
  update.decay.assign(network.parameters.size(), 0.1);
  if (!optimizer) return update;
  update.optimizers = {optimizer};
  if (optimizer->scope() != OptimizerScope::matrix) return update;
  Diagnostics errors;
  update.optimizers.push_back(optimizer_type<PlainStep>().create({}, "", errors));
  for (const Parameter& parameter : network.parameters) update.optimizer_of.push_back(parameter.shape.rank() > 1 ? 0 : 1);
  return update;
}

// A replica trained by hand, on every backend.
class OptimizerdReplica {
 public:
  OptimizerdReplica(Device& device, const Network& network, const std::shared_ptr<const Optimizer>& optimizer)
      : network_(network), optimizer_(optimizer) {
    CompileOptions options;
    options.train_batch = 4;
    options.request.update = update_by(optimizer, network);
    replica_ = device.compile(network_, options);
    replica_->start();
    for (int p = 0; p < parameters(); ++p) replica_->write(kValue, p, drawn(p, 0));
  }
  int parameters() const { return static_cast<int>(network_.parameters.size()); }
  std::vector<int> parameters_with(const std::string& state) const {
    std::vector<int> found;
    for (int p = 0; p < parameters(); ++p) {
      const bool follows =
          optimizer_->scope() != OptimizerScope::matrix || network_.parameters[static_cast<std::size_t>(p)].shape.rank() > 1;
      if (follows || state == kValue || state == kGradient) found.push_back(p);
    }
    return found;
  }
  std::size_t numbers(const std::string& state, int p) const {
    return static_cast<std::size_t>(replica_->state_shape(state, p)->elements());
  }
  std::vector<float> drawn(int p, std::uint64_t seed) const {
    Parameter parameter = network_.parameters[static_cast<std::size_t>(p)];
    parameter.initialiser = {"uniform", 0.5};
    return initial_values(parameter, seed);
  }
  void update(std::uint64_t done, double rate = 0.1) {
    for (int p = 0; p < parameters(); ++p) replica_->write(kGradient, p, drawn(p, 1 + done));
    UpdateStep step;
    step.step = step.updates_done = done;
    step.learning_rate = rate;
    for (std::size_t b = 0; b < replica_->buckets().size(); ++b) replica_->update(static_cast<int>(b), step, nullptr);
    replica_->finish();
  }
  Replica& operator*() { return *replica_; }
  Replica* operator->() { return replica_.get(); }

 private:
  Network network_;
  std::shared_ptr<const Optimizer> optimizer_;  // null: none
  std::unique_ptr<Replica> replica_;
};

template <class Body>  // Calls body(device, network).
void on_every_backend(const Body& body) {
  for (const std::string& name : backend_names()) {
    const std::shared_ptr<Backend> backend = with_simulation().backends().find(name)->create();
    if (backend->devices().empty()) continue;
    SCOPED_TRACE(name);
    body(*backend->open(0, {}), testkit::small_network(kImage, 6, 3));
  }
}

TEST_P(EveryOptimizer, ItsStatesAreListedAndGoOnBitForBit) {
  on_every_backend([&](Device& device, const Network& network) {
    for (const auto& optimizer : optimizers_) {
      OptimizerdReplica whole(device, network, optimizer), second(device, network, optimizer);
      std::vector<std::string> expected = {std::string(kValue), std::string(kGradient)};
      for (const OptimizerState& state : optimizer->states()) expected.push_back(state.name);
      EXPECT_EQ(whole->states(), expected);
      for (std::uint64_t done = 0; done < 3; ++done) whole.update(done);
      for (const std::string& state : whole->states()) {
        for (const int p : whole.parameters_with(state)) {
          EXPECT_EQ(whole->read(state, p).size(), whole.numbers(state, p)) << state;
          second->write(state, p, whole->read(state, p));
        }
      }
      for (std::uint64_t done = 3; done < 5; ++done) whole.update(done), second.update(done);
      for (const std::string& state : whole->states()) {
        for (const int p : whole.parameters_with(state)) EXPECT_EQ(whole->read(state, p), second->read(state, p)) << state;
      }
    }
  });
}

// Backward leaves out frozen parameters.
TEST_P(EveryOptimizer, MovesNoValueAtARateOfZero) {
  on_every_backend([&](Device& device, const Network& network) {
    for (const auto& optimizer : optimizers_) {
      OptimizerdReplica replica(device, network, optimizer);
      for (std::uint64_t done = 0; done < 2; ++done) replica.update(done);
      std::vector<std::vector<float>> before;
      for (int p = 0; p < replica.parameters(); ++p) before.push_back(replica->read(kValue, p));
      replica.update(2, 0.0);
      for (int p = 0; p < replica.parameters(); ++p)
        EXPECT_EQ(replica->read(kValue, p), before[static_cast<std::size_t>(p)]) << p;
    }
  });
}

TEST_P(EveryOptimizer, MemoryPlansHoldItsStatesAndNoOthers) {
  on_every_backend([&](Device& device, const Network& network) {
    const auto planned = [&](const std::shared_ptr<const Optimizer>& optimizer) {
      std::vector<std::string> names;
      for (const MemoryPlan::Item& item : (*OptimizerdReplica(device, network, optimizer)).memory_plan().items)
        names.push_back(item.what);
      return names;
    };
    for (const auto& optimizer : optimizers_) {
      std::vector<std::string> expected = planned(nullptr);
      for (const OptimizerState& state : optimizer->states()) expected.push_back(state.name + " of weights");
      std::vector<std::string> found = planned(optimizer);
      if (optimizer->scope() != OptimizerScope::element || optimizer->keeps_reduced())
        expected.emplace_back("norms of parameters");
      if (optimizer->scope() == OptimizerScope::matrix) expected.emplace_back("workspace of updates");
      if (optimizer->keeps_reduced()) std::erase(found, "workspace of updates");  // if weights are not in rows
      std::ranges::sort(expected);
      std::ranges::sort(found);
      EXPECT_EQ(found, expected);
    }
  });
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().optimizers()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Discovered, EveryOptimizer, testing::ValuesIn(optimizer_names()), by_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryOptimizer);

}  // namespace
}  // namespace millrace::conformance
