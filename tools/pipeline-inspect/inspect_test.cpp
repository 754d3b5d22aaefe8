#include "inspect.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "common/text_table.h"
#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/loss.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/storage.h"
#include "millrace/util/batcher.h"
#include "millrace/util/load_plugins.h"
#include "network/load.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

class Read : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("read_folder").text("Reads image files.");
    d.params.add("path", &Params::path).required().text("folder of the images");
    SourceParams::describe(d.params);
  }
  Read(const Params& params, const StageSite&) : Source(params) {}
  void open() override {}
  std::uint64_t size() const override { return 0; }
  std::size_t largest_encoded() const override { return 0; }
  void read(Sample&) override {}
};

class Plain : public Stage {
 public:
  struct Params {};
  Plain(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

struct Window {
  Range x;
};

class Collect : public Batcher {
 public:
  struct Params {
    std::int64_t size = 0;
    Window window{{-4, 4}};
  };
  static void describe(StageDescription<Params>& d) {
    d.name("batch").text("Counts samples.").input(payload::kSampleChunk).output(payload::kBatch).serial();
    d.params.add("size", &Params::size).range(1).required().unit("images").text("of the global batch");
    d.params.add_table("window", &Params::window,
                       [](ParamSet<Window>& w) { w.add("x", &Window::x).range(-9, 9).unit("pixels"); });
  }
  Collect(const Params&, const StageSite&) {}
  BatchSpec spec() const override { return {}; }
  void process(int, Packet, Output&) override {}
};

class Step : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) {
    d.name("forward_backward").input(payload::kBatch).output(payload::kGradientBucket).per_replica().stepwise();
  }
};

class Update : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("optimizer").input(payload::kGradientBucket).per_replica(); }
};

class Inspect : public ::testing::Test {
 protected:
  void SetUp() override {
    registry_.add_stage<Read>();
    registry_.add_stage<Collect>();
    registry_.add_stage<Step>();
    registry_.add_stage<Update>();
  }
  Pipeline pipeline(const std::string& more = "") {
    const std::string file = folder_.write("inspect_test.toml",
                                           "[train]\nflow = [\"read\", \"batch\", \"forward_backward\", \"optimizer\"]\n"
                                           "[train.read]\nstage = \"read_folder\"\npath = \"x\"\n[train.batch]\nsize = 4\n" +
                                               more);
    Pipeline loaded = load_pipeline(file, {}, registry_);
    loaded.file = "p.toml";
    return loaded;
  }

  testkit::TestFolder folder_;
  Registry registry_;
};

TEST(TextTable, AlignsItsColumns) {
  TextTable table({"name", ">figure", ""});
  table.row({"a", "1,000", ""});
  table.row({"longer", "7", ""});
  EXPECT_EQ(table.text(), "  name    figure\n  a        1,000\n  longer       7\n");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST_F(Inspect, ShowsAStageWithItsPortsAndParameters) { EXPECT_MESSAGE(describe_stage(*registry_.stages().find("batch"))); }

struct HeavyBallKernel {
  static constexpr int kStates = 1;
  float momentum;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    states[0] = momentum * states[0] + gradient;
    value -= n.rate * states[0];
  }
};

class HeavyBall {
 public:
  struct Params {
    double momentum = 0.5;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("heavy_ball").text("Momentum.").state("momentum");
    d.params.add("momentum", &Params::momentum).range(0, 1).text("share that stays");
  }
  explicit HeavyBall(const Params& params) : momentum_(static_cast<float>(params.momentum)) {}
  HeavyBallKernel kernel(const UpdateTime&) const { return {momentum_}; }

 private:
  float momentum_;
};

TEST_F(Inspect, ShowsAnOptimizerWithItsStatesAndParameters) {
  registry_.add_optimizer<HeavyBall>();
  EXPECT_MESSAGE(describe_optimizer(*registry_.optimizers().find("heavy_ball")));
  EXPECT_NE(list_everything(registry_).find("optimizers\n  heavy_ball  Momentum."), std::string::npos);
}

TEST_F(Inspect, ShowsALayerWithItsPluginAndInputs) {
  const std::string text = describe_layer(*registry_.layers().find("add"));
  EXPECT_NE(text.find("\n  a layer type, for a network's key 'op'\n  plugin  -\n  inputs  2 or more\n"), std::string::npos)
      << text;
}

class Nearness : public Loss {
 public:
  struct Params {
    double margin = 1;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("nearness").text("How far.").target(LossTarget::values).example("", {3});
    d.params.add("margin", &Params::margin).range(0).text("that costs nothing");
  }
  void compute(LossPass&) const override {}
};

TEST_F(Inspect, ShowsALossWithItsFiguresAndParameters) {
  registry_.add_loss<Nearness>();
  EXPECT_MESSAGE(describe_loss(*registry_.losses().find("nearness")));
  EXPECT_NE(list_everything(registry_).find("losses\n  nearness  How far."), std::string::npos);
}

TEST_F(Inspect, ShowsAPipeline) { EXPECT_MESSAGE(describe_pipeline(pipeline())); }

TEST_F(Inspect, ShowsWhatAPipelinesNetworkTakesFromElsewhere) {
  const std::string file = MILLRACE_SOURCE_DIR "/pipelines/networks/quickstart.toml";  // any existing file
  const std::string text = describe_pipeline(pipeline("[network]\nuse = \"" + file + "\"\nweights = \"" + file +
                                                      "\"\nnew = [\"fc\"]\nfreeze = [\"block1\", \"block2.conv1\"]\n"));
  EXPECT_NE(text.find("\nweights " + file +
                      "\nnew     fc: 2 parameters, 650 values\nfrozen  block1, block2.conv1: 7 parameters, 7,408 values\n"),
            std::string::npos)
      << text;
}

TEST_F(Inspect, DrawsStagesEdgesAndCredits) {
  const std::string dot = draw_pipeline(pipeline());
  EXPECT_NE(dot.find("\"train.read\" [label=<<b>read</b>"), std::string::npos);
  EXPECT_NE(dot.find("\"train.read\" -> \"train.batch\" [label=\"SampleChunk\"]"), std::string::npos);
  EXPECT_NE(dot.find("\"train.forward_backward\" -> \"train.read\" [label=\"empty batches\", style=dashed"), std::string::npos);
  EXPECT_NE(dot.find("\"train.optimizer\" -> \"train.forward_backward\" [label=\"step done\", style=dashed"), std::string::npos);
}

TEST_F(Inspect, ShowsANetworkAsATableOfLayers) {
  Diagnostics errors;
  const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/cifar10_conv.toml", Value(), registry_, errors);
  ASSERT_EQ(errors.text(), "");
  const std::string text = describe_network(*network);
  EXPECT_NE(text.find("32 3x3x3 convolutions, stride 1, padding 1, no bias"), std::string::npos) << text;
  EXPECT_NE(text.find("3 x 32 x 32"), std::string::npos) << text;
  EXPECT_NE(text.find("128 -> 10"), std::string::npos) << text;
  EXPECT_NE(text.find("40 layers, 676,714 trained parameters, 1,792 running statistics, 95,257,856 multiply-adds an image"),
            std::string::npos)
      << text;
}

// As published: torchvision's table of weights.
TEST_F(Inspect, CountsTheMultiplyAddsOfKnownNetworks) {
  for (const auto& [name, known] : std::vector<std::pair<std::string, std::string>>{{"resnet18", "(1.81 GMACs, 3.63 GFLOPs)"},
                                                                                    {"resnet50", "(4.09 GMACs, 8.18 GFLOPs)"},
                                                                                    {"resnet152", "(11.51 GMACs, "}}) {
    Diagnostics errors;
    const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/" + name + ".toml", Value(), registry_, errors);
    ASSERT_EQ(errors.text(), "");
    const std::string text = describe_network(*network);
    EXPECT_NE(text.find(known), std::string::npos) << name << ": " << text.substr(text.rfind("multiply-adds an image"));
  }
}

TEST_F(Inspect, ShowsTheBytesOfActivations) {
  Diagnostics errors;
  const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/cifar10_conv.toml", Value(), registry_, errors);
  ASSERT_EQ(errors.text(), "");
  const std::string text = describe_network(*network);
  EXPECT_NE(text.find("131,072"), std::string::npos) << "32 x 32 x 32 numbers of four bytes:\n" << text;
  EXPECT_NE(text.find("in float32: 2,714,024 bytes of parameters and statistics, "), std::string::npos) << text;
  std::uint64_t bytes = 0;
  for (const Layer& layer : network->layers) bytes += 4 * static_cast<std::uint64_t>(layer.output.elements());
  EXPECT_NE(text.find(grouped(bytes) + " bytes of activations an image\n"), std::string::npos) << text;
}

TEST_F(Inspect, TellsATransposedConvolution) {
  const std::string file =
      folder_.write("network.toml",
                    "input = { channels = 6, height = 8, width = 8 }\n"
                    "layers = [ { op = \"transposed_conv\", out = 4, kernel = 2, stride = 2, groups = 2 } ]\n");
  Diagnostics errors;
  const auto network = load_network(file, Value(), registry_, errors);
  ASSERT_EQ(errors.text(), "");
  const std::string text = describe_network(*network);
  EXPECT_NE(text.find("4 2x2x3 transposed convolutions, stride 2, 2 groups"), std::string::npos) << text;
  EXPECT_NE(text.find("4 x 16 x 16"), std::string::npos) << text;
}

TEST_F(Inspect, ListsTheParametersOfANetwork) {
  Diagnostics errors;
  const auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/cifar10_conv.toml", Value(), registry_, errors);
  ASSERT_EQ(errors.text(), "");
  const std::string text = list_parameters(*network);
  EXPECT_TRUE(
      text.starts_with("{\"name\":\"block1.0.conv.weight\",\"kind\":\"trained\",\"initialiser\":\"glorot_uniform\","
                       "\"value\":0.0,\"shape\":[32,3,3,3]}\n"))
      << text;
  EXPECT_NE(text.find("{\"name\":\"block1.0.bn.running_var\",\"kind\":\"statistic\",\"initialiser\":\"constant\","
                      "\"value\":1.0,\"shape\":[32]}\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), network->parameters.size());
}

TEST_F(Inspect, ListsWhatThereIs) {
  const std::string text = list_everything(registry_);
  EXPECT_NE(text.find("plugins\n  none was found"), std::string::npos) << text;
  EXPECT_NE(text.find("read_folder"), std::string::npos) << text;
  EXPECT_NE(text.find("layer types"), std::string::npos) << text;
}

TEST_F(Inspect, ListsEachKindWithItsPlugin) {
  registry_.add(StorageType{{"crate", "Boxes.", "boxes"}, nullptr});
  registry_.add(CommunicatorType{{"drums", "Far away.", "boxes"}, "", {}});
  const std::string said = "communicators\n  drums  Far away.\n\nstorage\n  crate  Boxes.\n";
  EXPECT_NE(list_everything(registry_).find("storage\n  crate  Boxes.\n"), std::string::npos) << list_everything(registry_);
  PluginInfo plugin;
  plugin.name = "boxes";
  EXPECT_TRUE(describe_plugin(plugin, registry_).ends_with(said)) << describe_plugin(plugin, registry_);
  plugin.name = "others";
  EXPECT_EQ(describe_plugin(plugin, registry_).find("crate"), std::string::npos);
}

class Bell : public RunObserver {
 public:
  struct Params {
    std::int64_t times = 2;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("bell").text("Rings.").delivery(Delivery::latest);
    d.params.add("times", &Params::times).range(1, 5).text("how often");
  }
};

TEST_F(Inspect, DescribesAnObserver) {
  registry_.add_observer<Bell>();
  EXPECT_MESSAGE(describe_observer(*registry_.observers().find("bell")));
  EXPECT_NE(list_everything(registry_).find("observers\n  bell  Rings."), std::string::npos);
}

class Backends : public Backend {
 public:
  explicit Backends(std::vector<DeviceInfo> devices) : devices_(std::move(devices)) {}
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() override { return devices_; }
  std::string unavailable_reason() override { return devices_.empty() ? "no NVIDIA driver was found" : ""; }
  std::unique_ptr<Device> open(int, const DeviceOptions&) override { return nullptr; }

 private:
  std::vector<DeviceInfo> devices_;
};

void add_backend(Registry& registry, const std::string& name, std::vector<DeviceInfo> devices) {
  registry.add(BackendType{{name}, [devices] { return std::make_shared<Backends>(devices); }});
}

TEST_F(Inspect, ShowsDevicesAndWhyThereAreNone) {
  DeviceInfo device;
  device.backend = "graphics";
  device.index = 1;
  device.name = "Model 7";
  device.memory = std::size_t{3} << 29;
  device.details = {{"links", "PCIe"}};
  add_backend(registry_, "graphics", {device});
  add_backend(registry_, "cuda", {});
  EXPECT_MESSAGE(describe_devices(registry_));
  EXPECT_MESSAGE(describe_devices(Registry()));
}

}  // namespace
}  // namespace millrace
