#include "config/overruled_keys.h"

#include "config/document.h"
#include "config/plan_fixture.h"
#include "millrace/optimizer.h"

namespace millrace::plan_test {
namespace {

struct NoKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers&, float, float&) const {}
};

class WithMomentum {
 public:
  struct Params {
    double momentum = 0;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("with_momentum").text("An optimizer.");
    d.params.add("momentum", &Params::momentum);
  }
  explicit WithMomentum(const Params&) {}
  NoKernel kernel(const UpdateTime&) const { return {}; }
};

class WithBeta {
 public:
  struct Params {
    double beta = 0;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("with_beta").text("Another.");
    d.params.add("beta", &Params::beta);
  }
  explicit WithBeta(const Params&) {}
  NoKernel kernel(const UpdateTime&) const { return {}; }
};

class Updates : public Stage {
 public:
  struct Rate {
    std::string schedule = "constant";
    double peak = 0.5;
  };
  struct Params : OptimizerParams {
    Params() { optimizer = "with_momentum"; }
    Rate rate;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("updates").input(payload::kGradientBucket);
    OptimizerParams::describe(d.params);
    d.params.add_table("rate", &Params::rate, [](ParamSet<Rate>& rate) {
      rate.add("schedule", &Rate::schedule).choices({"constant", "cosine", "triangular"});
      rate.add("peak", &Rate::peak).only_with("schedule", {"triangular"});
    });
  }
  Updates(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

// middle.toml extends base.toml and names another optimizer and another schedule; top.toml and own.toml extend middle.toml.
class OverruledKeys : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    registry_.add_stage<Updates>();
    registry_.add_optimizer<WithMomentum>();
    registry_.add_optimizer<WithBeta>();
    write("base.toml", "[train.updates]\nmomentum = 0.5\nmomentun = 1\nrate = { schedule = \"triangular\", peak = 0.3 }\n");
    write("middle.toml", "extends = \"base.toml\"\n[train.updates]\ntype = \"with_beta\"\nrate = { schedule = \"cosine\" }\n");
    write("top.toml", "extends = \"middle.toml\"\n[train.updates]\nbeta = 0.9\n");
    write("own.toml", "extends = \"middle.toml\"\n[train.updates]\nmomentum = 0.1\nrate = { peak = 0.2 }\n");
  }
  // The remaining keys of the stage and of its rate.
  std::vector<std::string> left(const std::string& file, const std::vector<std::string>& set = {}) const {
    Diagnostics errors;
    DocumentSources sources;
    std::vector<std::string> keys;
    auto document = read_document(file, {}, errors, {}, &sources);
    for (const std::string& option : set) apply_override(option, *document, errors);
    EXPECT_EQ(errors.text(), "");
    Value& graph = *document->find("train");
    drop_overruled_keys(graph, registry_, sources.files);
    for (const Member& member : graph.find("updates")->table()) {
      if (member.value.kind() != Value::Kind::table) keys.push_back(member.key);
    }
    for (const Member& member : graph.find("updates")->find("rate")->table()) keys.push_back(member.key);
    return keys;
  }
};

using Keys = std::vector<std::string>;

TEST_F(OverruledKeys, AreThoseOfTheNewNameWhereALaterTextSaysTheOldOne) {
  write("old.toml", "extends = \"middle.toml\"\n[train.updates]\nrule = \"with_momentum\"\n");
  Diagnostics errors;
  DocumentSources sources;
  auto document = read_document("old.toml", {}, errors, {}, &sources);
  std::vector<std::string> warnings;
  rename_old_keys(*document, registry_, sources.files, warnings);
  EXPECT_EQ(document->find("train")->find("updates")->find("type")->text(), "with_momentum");
  EXPECT_EQ(warnings, Keys{"old.toml:3:1: 'rule' is now called 'type', and is read as such"});
  rename_old_keys(*document, registry_, sources.files, warnings);
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(OverruledKeys, OfAFileThatIsExtendedAreDroppedHoweverFarAway) {
  EXPECT_EQ(left("base.toml"), (Keys{"momentum", "momentun", "schedule", "peak"}));
  EXPECT_EQ(left("middle.toml"), (Keys{"momentun", "type", "schedule"})) << "a key that no optimizer has is a mistake";
  EXPECT_EQ(left("top.toml"), (Keys{"momentun", "type", "beta", "schedule"}));
}

TEST_F(OverruledKeys, OfAFileAreDroppedBesideAnOption) {
  EXPECT_EQ(left("base.toml", {"train.updates.rate.schedule=cosine"}), (Keys{"momentum", "momentun", "schedule"}));
  EXPECT_EQ(left("base.toml", {"train.updates.type=with_beta"}), (Keys{"momentun", "type", "schedule", "peak"}));
  EXPECT_EQ(left("base.toml", {"train.updates.type=with_betta"}), (Keys{"momentum", "momentun", "type", "schedule", "peak"}));
}

TEST_F(OverruledKeys, ThatAreWrittenLaterStay) {
  EXPECT_EQ(left("own.toml"), (Keys{"momentum", "momentun", "type", "schedule", "peak"}));
  EXPECT_EQ(left("middle.toml", {"train.updates.rate.peak=0.4"}), (Keys{"momentun", "type", "schedule", "peak"}));
  EXPECT_EQ(left("middle.toml", {"train.updates.momentum=0.4"}), (Keys{"momentum", "momentun", "type", "schedule"}));
  const Keys both = left("base.toml", {"train.updates.type=with_beta", "train.updates.momentum=0.4"});
  EXPECT_EQ(both, (Keys{"momentum", "momentun", "type", "schedule", "peak"}));
}

// Another flow drops a stage, and another type of stage has other keys.
TEST_F(OverruledKeys, OfStagesThatAreGoneGoWithThem) {
  write("flow.toml",
        "[train]\nflow = [\"read\", \"augment\"]\n[train.read]\nstage = \"read_folder\"\npath = \"x\"\nlimit = 3\n"
        "[train.augment]\nflip_x = 0.5\n");
  write("shorter.toml",
        "extends = \"flow.toml\"\n[train]\nflow = [\"read\"]\n[train.read]\nstage = \"augment\"\nborder = \"constant\"\n");
  write("again.toml", "extends = \"shorter.toml\"\n[train.augment]\nflip_x = 1\n[train.read]\npath = \"y\"\n");
  const auto text = [&](const std::string& file, const std::vector<std::string>& set = {}) {
    Diagnostics errors;
    DocumentSources sources;
    auto document = read_document(file, {}, errors, {}, &sources);
    for (const std::string& option : set) apply_override(option, *document, errors);
    EXPECT_EQ(errors.text(), "");
    drop_overruled_keys(*document->find("train"), registry_, sources.files);
    return to_toml(*document);
  };
  EXPECT_NE(text("flow.toml").find("[train.augment]"), std::string::npos);
  EXPECT_EQ(text("flow.toml", {"train.flow=[\"read\"]"}).find("[train.augment]"), std::string::npos);
  EXPECT_EQ(text("shorter.toml"), "[train]\nflow = [\"read\"]\n\n[train.read]\nstage = \"augment\"\nborder = \"constant\"\n");
  EXPECT_NE(text("again.toml").find("flip_x = 1"), std::string::npos) << "what a later file says stays, and is a mistake";
  EXPECT_NE(text("again.toml").find("path = \"y\""), std::string::npos);
}

}  // namespace
}  // namespace millrace::plan_test
