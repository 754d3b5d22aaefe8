// Losses at outputs other than the network's result, in a pipeline.
#include "config/plan_fixture.h"
#include "millrace/loss.h"
#include "millrace/plugin.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

class Minimise : public Stage {
 public:
  struct Params : LossParams {
    std::vector<AuxiliaryLoss> auxiliary;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("minimise").input(payload::kBatch).output(payload::kGradientBucket, "gradients");
    d.output(payload::kStepResult, "result").per_replica();
    LossParams::describe(d.params, "what is minimised");
    d.params.add_list("auxiliary", &Params::auxiliary, &AuxiliaryLoss::describe);
  }
  Minimise(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

class AuxiliaryPlan : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    registry_.add_stage<Minimise>();
    LossType loss;
    loss.name = "cross_entropy";
    loss.info = std::make_shared<LossInfo>();
    loss.examples = {{"", {5}}};
    loss.create = [](const Value&, const std::string&, Diagnostics&) { return nullptr; };
    registry_.add(std::move(loss));
    write("networks/two.toml",
          "input = { channels = 3, height = 8, width = 8 }\n"
          "layers = [ { name = \"stem\", op = \"conv\", out = 2, kernel = 1 },\n"
          "           { name = \"side\", op = \"linear\", out = 5, auxiliary = true },\n"
          "           { op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", out = 5 } ]\n");
  }

  static std::string pipeline(const std::string& auxiliary) {
    return train("[network]\nuse = \"two\"\n[train.forward_backward]\nstage = \"minimise\"\n" + auxiliary);  // lines 8 to 12
  }
  // Whether each parameter of layer "side" is trained.
  std::vector<bool> trained(const std::string& auxiliary) {
    std::vector<bool> all;
    const Pipeline plan = load(pipeline(auxiliary));
    for (const Parameter& parameter : plan.network->parameters) {
      if (!parameter.name.starts_with("side.")) continue;
      EXPECT_EQ(parameter.trainable, !parameter.unused);
      all.push_back(parameter.trainable);
    }
    return all;
  }
};

TEST_F(AuxiliaryPlan, TrainsTheLayersThatItNames) {
  EXPECT_EQ(trained("auxiliary = [{ output = \"side\", weight = 0.5 }]\n"), (std::vector<bool>{true, true}));
  EXPECT_EQ(trained(""), (std::vector<bool>{false, false}));
  EXPECT_EQ(trained("auxiliary = [{ weight = 0.5 }]\n"), (std::vector<bool>{false, false}));  // at the network's result
}

TEST_F(AuxiliaryPlan, FindsMistakesWhereTheyAreWritten) {
  EXPECT_MESSAGE(mistakes(pipeline("auxiliary = [{ output = \"sid\" }, { output = \"stem\" }]\n")));
  EXPECT_MESSAGE(mistakes(pipeline("auxiliary = [{ output = \"side\", loss = \"cross_entrpy\" }]\n")));
  EXPECT_MESSAGE(mistakes(pipeline("auxiliary = [{ wieght = 1 }]\n")));
}

}  // namespace
}  // namespace millrace::plan_test
