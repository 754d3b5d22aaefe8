#include <gtest/gtest.h>

#include "run/doctor/doctor.h"
#include "testkit/messages.h"
#include "toml/document.h"

namespace millrace {
namespace {

using Said = std::vector<std::string>;

// A run of 10 epochs of 5 steps, with a validation every `every`.
class WithoutEffect : public testing::Test {
 protected:
  WithoutEffect() {
    pipeline_.file = "p.toml";
    pipeline_.graphs.resize(2);
    pipeline_.graphs[0].name = "train";
    pipeline_.graphs[1].name = "validate";
    pipeline_.graphs[1].every = "epoch";
    pipeline_.graphs[1].when.epochs = 1;
  }
  template <class Plan>  // [stop] or [plateau]
  static void watch(Plan& plan, const char* graph, const char* figure, std::uint64_t patience) {
    plan.figure = FigurePlan{graph, figure, {}};
    plan.patience = patience;
  }
  Said said() const {
    Said said;
    look_at_settings(pipeline_, main_, steps_, [&](std::string text) { said.push_back(std::move(text)); });
    return said;
  }

  Pipeline pipeline_;
  MainGraphSteps main_{.name = "train", .trains = true, .an_epoch = 5};
  std::uint64_t steps_ = 50;
};

TEST_F(WithoutEffect, NothingIsSaidOfWhatChangesTheRun) {
  pipeline_.best = FigurePlan{"validate", "accuracy", {}};
  watch(pipeline_.stop, "validate", "accuracy", 8);
  watch(pipeline_.plateau, "train", "loss", 8);
  EXPECT_EQ(said(), Said{});
}

TEST_F(WithoutEffect, APatienceThatOutlastsTheRun) {
  watch(pipeline_.stop, "validate", "accuracy", 9);
  watch(pipeline_.plateau, "train", "loss", 9);
  const std::string takes = " has no effect: patience = 9 takes 10 passes of ", has = " before the last step, but the run has 9";
  EXPECT_EQ(said(), (Said{"p.toml: figure of [stop]" + takes + "[validate]" + has,
                          "p.toml: figure of [plateau]" + takes + "[train]" + has}));
  steps_ = 51;  // the tenth pass is no longer last
  EXPECT_EQ(said(), Said{});
}

TEST_F(WithoutEffect, APatienceOfAGraphThatRunsRarely) {
  pipeline_.graphs[1].when = Every{.steps = 20};  // after steps 20, 40 and 50
  watch(pipeline_.stop, "validate", "accuracy", 2);
  EXPECT_EQ(said(), Said{"p.toml: figure of [stop] has no effect: patience = 2 takes 3 passes of [validate] before the last "
                         "step, but the run has 2"});
  pipeline_.stop.patience = 1;
  EXPECT_EQ(said(), Said{});
}

TEST_F(WithoutEffect, BestWeightsThatAreWrittenNowhere) {
  pipeline_.best = FigurePlan{"validate", "accuracy", {}};
  pipeline_.run.folder = "";
  EXPECT_EQ(said(), Said{"p.toml: run.best has no effect: run.folder = \"\" writes nothing"});
}

TEST_F(WithoutEffect, TablesOfTrainingWhereNothingTrains) {
  main_.trains = false;
  pipeline_.resolved.set("stop", Value());
  pipeline_.resolved.set("checkpoint", Value());
  for (Member& member : pipeline_.resolved.table()) {
    member.value.set_position({std::make_shared<const std::string>("p.toml"), member.key == "stop" ? 3 : 5, 1});
  }
  EXPECT_EQ(said(), (Said{"p.toml:3:1: [stop] has no effect: [train] does not train",
                          "p.toml:5:1: [checkpoint] has no effect: [train] does not train"}));
}

Value network_of(const std::string& text) {
  Diagnostics errors;
  Value file = *parse_toml("[network]\n" + text, "then.toml", errors);
  errors.throw_if_any();
  return file;
}

TEST_F(WithoutEffect, WeightsOfAFileThatResumes) {
  const auto said_now = [this](const std::string& now, const std::string& then) {
    pipeline_.resolved = network_of(now);
    std::string said;
    look_at_ignored_weights(pipeline_, network_of(then), [&](std::string text) { said += text; });
    return said;
  };
  const std::string resumes = " has no effect: the run resumes with the weights of its checkpoint, after it began with ";
  EXPECT_EQ(said_now("use = \"a\"\n", "use = \"a\"\nweights = \"w.pth\"\n"), "") << "--weights at its beginning";
  EXPECT_EQ(said_now("weights = \"there/w.pth\"\n", "weights = \"here/w.pth\"\n"), "") << "the file was moved";
  EXPECT_EQ(said_now("weights = \"w.pth\"\nnew = [\"fc\"]\n", "weights = \"w.pth\"\nnew = [\"fc\"]\n"), "");
  EXPECT_MESSAGE(said_now("weights = \"x.pth\"\n", "use = \"a\"\n"));
  EXPECT_MESSAGE(said_now("weights = \"x.pth\"\n", "weights = \"w.pth\"\n"));
  EXPECT_MESSAGE(said_now("weights = \"w.pth\"\nnew = [\"fc\"]\n", "weights = \"w.pth\"\n"));
}

}  // namespace
}  // namespace millrace
