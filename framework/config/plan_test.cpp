// Long because all mistakes that a file can hold are asked of one fixture.
#include "config/plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/error.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// ---- stages that are described and never run ----

struct NoParams {};

class Read : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("read_folder").text("Reads files.");
    d.params.add("path", &Params::path).required().text("folder of the images");
    SourceParams::describe(d.params);
  }
  Read(const Params& params, const StageContext&) : Source(params) {}
  void open() override {}
  std::uint64_t size() const override { return 0; }
  std::size_t largest_encoded() const override { return 0; }
  void read(Sample&) override {}
};

class Decode : public SampleTransform {
 public:
  using Params = NoParams;
  static void describe(StageDescription<Params>& d) { d.name("decode_image").input(payload::kSampleChunk); }
  Decode(const Params&, const StageContext&) {}
  void process(Sample&, Draw&) override {}
};

class Augment : public SampleTransform {
 public:
  struct Params {
    double flip_x = 0;
    std::string border = "reflect";
  };
  static void describe(StageDescription<Params>& d) {
    d.name("augment").text("Flips.");
    d.params.add("flip_x", &Params::flip_x).range(0, 1).text("chance of mirroring");
    d.params.add("border", &Params::border).choices({"reflect", "constant"});
  }
  Augment(const Params&, const StageContext&) {}
  void process(Sample&, Draw&) override {}
};

class Collect : public Batcher {
 public:
  struct Params {
    std::int64_t size = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("batch").input(payload::kImageChunk).output(payload::kBatch);
    d.params.add("size", &Params::size).range(1).required();
  }
  Collect(const Params&, const StageContext&) {}
  BatchSpec spec() const override { return {}; }
  void process(int, Packet, Output&) override {}
};

class Plain : public Stage {
 public:
  using Params = NoParams;
  Plain(const Params&, const StageContext&) {}
  void process(int, Packet, Output&) override {}
};

class Step : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) {
    d.name("forward_backward").input(payload::kBatch).output(payload::kGradientBucket, "gradients");
    d.output(payload::kStepResult, "result").per_replica();
  }
};

class Update : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("optimizer").input(payload::kGradientBucket); }
};

class Report : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("metrics").input(payload::kStepResult); }
};

// ---- files of one test ----

class Plan : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    folder_ = fs::path(MILLRACE_BINARY_DIR) / "test-files" /
              ("Plan." + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "networks");
    fs::current_path(folder_);
    registry_.add_stage<Read>();
    registry_.add_stage<Decode>();
    registry_.add_stage<Augment>();
    registry_.add_stage<Collect>();
    registry_.add_stage<Step>();
    registry_.add_stage<Update>();
    registry_.add_stage<Report>();
    write("networks/small.toml",
          "input = { channels = 3, height = 8, width = 8, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }\n"
          "layers = [ { op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", out = \"${classes}\" } ]\n");
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  static void write(const std::string& name, const std::string& text) { std::ofstream(name) << text; }
  Pipeline load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write("p.toml", text);
    return load_pipeline("p.toml", overrides, registry_);
  }
  std::string mistakes(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
  }

  Registry registry_;

 private:
  fs::path before_, folder_;
};

constexpr const char* kTrain =
    "[train]\n"                                                                                                        // 1
    "flow = [\"read\", \"decode_image\", \"augment\", \"batch\", \"forward_backward\", \"optimizer\", \"metrics\"]\n"  // 2
    "[train.read]\n"                                                                                                   // 3
    "stage = \"read_folder\"\n"                                                                                        // 4
    "path = \"x\"\n"                                                                                                   // 5
    "[train.batch]\n"                                                                                                  // 6
    "size = 4\n";                                                                                                      // 7

std::string train(const std::string& more = "") { return kTrain + more; }

// ---- what is read ----

TEST_F(Plan, HoldsStagesInFlowOrderAndTheirEdges) {
  const Pipeline pipeline = load(train("[train.augment]\nflip_x = 0.5\n"));
  ASSERT_EQ(pipeline.graphs.size(), 1U);
  const GraphPlan& graph = pipeline.graphs[0];
  ASSERT_EQ(graph.stages.size(), 7U);
  EXPECT_EQ(graph.stages[0].name, "read");
  EXPECT_EQ(graph.stages[0].type->name, "read_folder");
  EXPECT_EQ(to_toml(graph.stages[0].table), "path = \"x\"\n");
  EXPECT_EQ(to_toml(graph.stages[2].table), "flip_x = 0.5\n");
  std::string edges;
  for (const EdgePlan& e : graph.edges) {
    edges += fmt::format("{}.{}>{}.{} ", graph.stages[static_cast<std::size_t>(e.from_stage)].name, e.from_port,
                         graph.stages[static_cast<std::size_t>(e.to_stage)].name, e.to_port);
  }
  EXPECT_EQ(edges,
            "read.0>decode_image.0 decode_image.0>augment.0 augment.0>batch.0 batch.0>forward_backward.0 "
            "forward_backward.0>optimizer.0 forward_backward.1>metrics.0 ");
  EXPECT_EQ(pipeline.graph("train"), &graph);
  EXPECT_EQ(pipeline.graph("validate"), nullptr);
}

TEST_F(Plan, FromMakesABranch) {
  const Pipeline pipeline = load(train("from = \"decode_image\"\n"));
  bool found_edge = false;
  for (const EdgePlan& edge : pipeline.graphs[0].edges) found_edge = found_edge || (edge.from_stage == 1 && edge.to_stage == 3);
  EXPECT_TRUE(found_edge);
  EXPECT_EQ(to_toml(pipeline.graphs[0].stages[3].table), "size = 4\n");
}

TEST_F(Plan, RunHasDefaults) {
  const Pipeline pipeline = load(train("[run]\nepochs = 9.9\nthreads = \"auto\"\n"));
  EXPECT_EQ(pipeline.run.name, "p");
  EXPECT_EQ(pipeline.run.epochs, 9.9);
  EXPECT_EQ(pipeline.run.threads, 0);
  EXPECT_EQ(pipeline.run.devices, "auto");
  EXPECT_EQ(pipeline.run.tune, "heuristic");
  EXPECT_TRUE(pipeline.run.deterministic);
  EXPECT_TRUE(pipeline.run.graphs);
  EXPECT_FALSE(pipeline.run.recompute);
}

TEST_F(Plan, RunSaysHowDevicesCompute) {
  const RunParams run = load(train("[run]\ntune = \"measure\"\ndeterministic = false\ngraphs = false\nrecompute = true\n")).run;
  EXPECT_EQ(run.tune, "measure");
  EXPECT_FALSE(run.deterministic);
  EXPECT_FALSE(run.graphs);
  EXPECT_TRUE(run.recompute);
  EXPECT_EQ(mistakes(train("[run]\ntune = \"mesure\"\n")).find("p.toml:"), 0U);
}

TEST_F(Plan, NetworkLiesBesideTheFileAndTakesVariables) {
  const Pipeline pipeline = load(train("[network]\nuse = \"networks/small.toml\"\nclasses = 7\n"));
  ASSERT_NE(pipeline.network, nullptr);
  EXPECT_EQ(pipeline.network->output(), Shape({7}));
  EXPECT_EQ(pipeline.network_table.find("use")->text(), "networks/small.toml");
}

TEST_F(Plan, TheGraphWithoutEveryComesFirst) {
  const Pipeline pipeline = load(
      "[validate]\nevery = \"2 epochs\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
      "[validate.read_folder]\npath = \"y\"\n[validate.batch]\nsize = 5\n" +
      train());
  ASSERT_EQ(pipeline.graphs.size(), 2U);
  EXPECT_EQ(pipeline.graphs[0].name, "train");
  EXPECT_EQ(pipeline.graphs[1].every, "2 epochs");
}

TEST_F(Plan, ResolvedFileCanBeReadAgain) {
  const std::string text = train("[network]\nuse = \"networks/small.toml\"\nclasses = \"${n} + 1\"\n[data]\nroot = \"a\"\n");
  const Pipeline first = load("n = 1\n" + text, {"n=4", "train.read.path=${data.root}/train"});
  EXPECT_EQ(first.graphs[0].stages[0].table.find("path")->text(), "a/train");
  const Pipeline again = load(to_toml(first.resolved));
  EXPECT_EQ(to_toml(again.resolved), to_toml(first.resolved));
  EXPECT_EQ(again.network->output(), Shape({5}));
}

// ---- what is refused ----

TEST_F(Plan, MisspeltKey) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflipx = 0.5\n")),
            "p.toml:9:1: [train.augment] has no key 'flipx'; nearest is 'flip_x'");
  EXPECT_EQ(mistakes(train("[run]\nepoch = 2\n")), "p.toml:9:1: [run] has no key 'epoch'; nearest is 'epochs'");
}

TEST_F(Plan, WrongType) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"half\"\n")),
            "p.toml:9:10: 'flip_x' must be a number between 0 and 1, found \"half\"");
}

TEST_F(Plan, OutOfRange) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = 1.5\n")),
            "p.toml:9:10: 'flip_x' must be a number between 0 and 1, found 1.5");
}

TEST_F(Plan, ChoiceNotInTheList) {
  EXPECT_EQ(mistakes(train("[train.augment]\nborder = \"constent\"\n")),
            "p.toml:9:10: 'border' must be one of \"reflect\", \"constant\", found \"constent\"; nearest is \"constant\"");
}

TEST_F(Plan, MissingRequiredParameter) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\",\n \"decode_image\", \"batch\"]\n[train.batch]\nsize = 1\n"),
            "p.toml:2:9: [train.read_folder] needs 'path': folder of the images");
}

TEST_F(Plan, UnknownStage) {
  EXPECT_EQ(mistakes(train("[train.augment]\nstage = \"augmnt\"\n")),
            "p.toml:9:9: there is no stage 'augmnt'; nearest is 'augment'");
  EXPECT_EQ(mistakes(train("[train.augment]\nstage = \"convolve\"\n")),
            "p.toml:9:9: there is no stage 'convolve'; `pipeline-inspect` lists all there are");
}

TEST_F(Plan, UnknownNetworkFile) {
  EXPECT_EQ(mistakes(train("[network]\nuse = \"networks/smal.toml\"\n")),
            "p.toml:9:7: there is no file 'networks/smal.toml'; nearest is 'networks/small.toml'");
  EXPECT_EQ(mistakes(train("[network]\nclasses = 3\n")),
            "p.toml:8:1: [network] needs 'use': the file that describes the network");
}

TEST_F(Plan, PortMismatch) {
  EXPECT_EQ(mistakes(train("from = \"read\"\n")),
            "p.toml:8:8: port mismatch: 'batch' takes ImageChunk, 'read' gives SampleChunk");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.gradients\"\n")),
            "p.toml:9:8: port mismatch: 'metrics' takes StepResult, 'forward_backward' gives GradientBucket and StepResult");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.loss\"\n")),
            "p.toml:9:8: 'forward_backward' has no output 'loss'; it has 'gradients', 'result'");
}

TEST_F(Plan, InputThatNobodyFeeds) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"batch\"]\n[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
      "p.toml:2:24: 'batch' takes ImageChunk, which no stage before it in the flow of [train] gives ('read_folder' gives "
      "SampleChunk); 'decode_image' would give it");
}

TEST_F(Plan, FromLeadsBackwards) {
  EXPECT_EQ(
      mistakes(train("from = \"metrics\"\n")),
      "p.toml:8:8: 'from' of 'batch' leads backwards: 'metrics' stands after it in the flow. That is a cycle without credit: "
      "only batches and step tokens flow back, on edges that the framework makes itself");
  EXPECT_EQ(mistakes(train("from = \"batch\"\n")),
            "p.toml:8:8: 'from' of 'batch' leads backwards: 'batch' is the stage itself. That is a cycle without credit: "
            "only batches and step tokens flow back, on edges that the framework makes itself");
}

TEST_F(Plan, FromNamesNoStage) {
  EXPECT_EQ(mistakes(train("from = \"decode\"\n")),
            "p.toml:8:8: 'from' of 'batch': there is no stage 'decode' in the flow of [train]; nearest is 'decode_image'");
  EXPECT_EQ(mistakes(train("from = [\"augment\", \"read\"]\n")),
            "p.toml:8:8: 'from' of 'batch' names 2 stages, but the stage has 1 input");
}

TEST_F(Plan, NameTwiceInTheFlow) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"decode_image\", \"batch\"]\n"
               "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
      "p.toml:2:40: 'decode_image' stands in the flow of [train] twice; a second stage of a type needs a name of its own and a "
      "table [train.name] with stage = \"type\"");
}

TEST_F(Plan, TableThatIsNotInTheFlow) {
  EXPECT_EQ(mistakes(train("[train.augmnt]\nflip_x = 0.5\n")),
            "p.toml:8:8: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
}

TEST_F(Plan, CyclicReference) {
  EXPECT_EQ(mistakes("a = \"${b}\"\nb = \"${a} * 2\"\n" + train()),
            "p.toml:1:5: '${b}' refers to itself: b -> a -> b");
}

TEST_F(Plan, UnknownReferenceIsNotReportedTwice) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${data.flp}\"\n[data]\nflip = 0.5\n")),
            "p.toml:9:10: '${data.flp}' refers to nothing; nearest is '${data.flip}'");
}

TEST_F(Plan, CyclicExtends) {
  write("base.toml", "extends = \"p.toml\"\n");
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n" + train()),
            "base.toml:1:11: 'extends' leads in a circle: p.toml -> base.toml -> p.toml");
}

TEST_F(Plan, BadSet) {
  EXPECT_EQ(mistakes(train(), {"run.epochs"}), "--set: expected key.path=value, found 'run.epochs'");
  EXPECT_EQ(mistakes(train(), {"run.epoch=2"}), "--set: [run] has no key 'epoch'; nearest is 'epochs'");
  EXPECT_EQ(mistakes(train(), {"train.augmnt.flip_x=0.1"}),
            "--set: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
  EXPECT_EQ(mistakes(train(), {"train.augment.flip_x=2"}), "--set: 'flip_x' must be a number between 0 and 1, found 2");
  EXPECT_EQ(mistakes(train(), {"trian.batch.size=2"}),
            "--set: 'trian.batch.size' is set, but the file has no 'trian'; nearest is 'train'");
  EXPECT_EQ(mistakes(train("[data]\nroot = \"x\"\n"), {"data.rot=2"}),
            "--set: 'data.rot' is set, but nothing refers to it; nearest is 'data.root'");
}

TEST_F(Plan, SetMaySupplyWhatIsOnlyReferredTo) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${data.flip}\"\n"), {"data.flip=0.5"}), "");
}

TEST_F(Plan, SyntaxError) { EXPECT_EQ(mistakes("[run\n").substr(0, 10), "p.toml:1:5"); }

TEST_F(Plan, MissingFile) {
  write("p.toml", "");
  try {
    load_pipeline("q.toml", {}, registry_);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "there is no file 'q.toml'; nearest is 'p.toml'");
  }
}

TEST_F(Plan, WrongEvery) {
  EXPECT_EQ(mistakes(train("[check]\nevery = \"epochs\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                           "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:9:9: 'every' must be \"epoch\", \"end\", or such as \"2 epochs\" or \"100 steps\", found \"epochs\"");
  EXPECT_EQ(
      mistakes(train("[check]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                     "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
      "p.toml:8:1: [check] needs 'every' (\"epoch\", \"end\", or such as \"2 epochs\" or \"100 steps\"): one graph is the run "
      "itself, and that is [train]");
}

TEST_F(Plan, MisspeltTablesThatNobodyUses) {
  EXPECT_EQ(mistakes(train("[rnu]\nepochs = 2\n")),
            "p.toml:8:2: 'rnu' means nothing here and nothing refers to it; nearest is 'run'");
  EXPECT_EQ(mistakes(train("[check]\nflwo = [\"read\"]\n")),
            "p.toml:9:1: [check] has no 'flow', so it is no graph, and nothing refers to it; nearest is 'flwo'");
  EXPECT_EQ(mistakes("[run]\nepochs = 1\n"), "p.toml:1:1: there is no graph in this file: a table with flow = [\"stage\", ...]");
}

TEST_F(Plan, SamplesNeedBatches) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\"]\n[train.read_folder]\npath = \"x\"\n"),
            "p.toml:2:9: [train] reads samples but makes no batches of them; put a stage such as 'batch' into its flow");
}

TEST_F(Plan, SeveralMistakesAreReportedTogetherInOrder) {
  EXPECT_EQ(
      mistakes("[run]\nepochs = -1\nprecision = \"fp61\"\n"
               "[train]\nflow = [\"read\", \"decode_imge\", \"batch\"]\n"
               "[train.read]\nstage = \"read_folder\"\nshuffle = \"always\"\n"
               "[train.batch]\nsize = \"big\"\n"
               "[network]\nuse = \"networks/large.toml\"\n"),
      "p.toml:2:10: 'epochs' must be a number of at least 0, found -1\n"
      "p.toml:3:13: 'precision' must be one of \"auto\", \"fp32\", \"tf32\", \"bf16\", found \"fp61\"; nearest is \"fp32\"\n"
      "p.toml:5:17: there is no stage 'decode_imge'; nearest is 'decode_image'\n"
      "p.toml:6:1: [train.read] needs 'path': folder of the images\n"
      "p.toml:8:11: 'shuffle' must be one of \"never\", \"once\", \"every-epoch\", found \"always\"\n"
      "p.toml:10:8: 'size' must be an integer of at least 1, found \"big\"\n"
      "p.toml:12:7: there is no file 'networks/large.toml'; its folder has 'small.toml'");
}

}  // namespace
}  // namespace millrace
