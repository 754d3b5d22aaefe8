// Error messages for users' mistakes: position, cause, and the correction.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

constexpr const char* kGood = R"([run]
name   = "t"
epochs = 1
folder = ""

[network]
use     = "NETWORK"
classes = 10

[train]
flow = ["read", "decode_image", "augment", "batch", "forward_backward", "optimizer", "metrics"]

[train.read]
stage   = "read_folder"
path    = "DATA/train"
shuffle = "every-epoch"

[train.decode_image]
size = [32, 32]

[train.augment]
flip_x = 0.5

[train.batch]
size = 100

[train.optimizer]
learning_rate = { initial = 0.1 }
)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

class Mistakes : public ::testing::Test {
 protected:
  Outcome run(const std::string& what, const std::string& with) {
    std::string text = replaced(replaced(kGood, "NETWORK", pipeline("networks/quickstart.toml")), "DATA", shapes());
    if (!what.empty()) text = replaced(text, what, with);
    std::ofstream(folder_ / "t.toml") << text;
    return run_command({tool("pipeline-run"), folder_ / "t.toml", "--quiet"});
  }

  void expect(const std::string& what, const std::string& with, int code, const std::vector<std::string>& said) {
    const Outcome outcome = run(what, with);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    for (const std::string& text : said)
      EXPECT_NE(outcome.err.find(text), std::string::npos) << text << "\nnot in\n" << outcome.err;
  }

  void refuse(const std::string& what, const std::string& with, int code = 2) {
    const Outcome outcome = run(what, with);
    EXPECT_EQ(outcome.code, code);
    EXPECT_MESSAGE(outcome.err);
  }

  TemporaryFolder folder_;
};

TEST_F(Mistakes, ThereIsNoneInTheFileThatTheyAreMadeIn) { expect("", "", 0, {}); }
TEST_F(Mistakes, APlaceWhereNoCheckpointCanBeWritten) {
  refuse("folder = \"\"\n", "[checkpoint]\nfolder = \"https://host/kept\"\n");
}
TEST_F(Mistakes, TwoGraphsThatWriteIntoOneFolder) {
  std::string more;
  for (const char* graph : {"validate", "test"}) {
    more += std::string("[") + graph +
            "]\nevery = \"epoch\"\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\", "
            "\"write_evaluation\"]\n[" +
            graph + ".read]\nstage = \"read_folder\"\npath = \"" + shapes() + "/test\"\n[" + graph +
            ".decode_image]\nsize = [32, 32]\n[" + graph + ".batch]\nsize = 10\n";
  }
  expect("[train.batch]\n", more + "[train.batch]\n", 0,
         {"[test.write_evaluation] writes into 'evaluation', as [validate.write_evaluation] does"});
}
TEST_F(Mistakes, APluginPathThatIsTheFolderAbove) {
  setenv("MILLRACE_PLUGIN_PATH", MILLRACE_BINARY_DIR "/tests", 1);  // its subfolders contain the plugins
  expect("\"augment\", ", "\"sepia\", ", 2,
         {"t.toml:11:33: unknown stage 'sepia'", "skipped: MILLRACE_PLUGIN_PATH: '" MILLRACE_BINARY_DIR
                                                 "/tests' holds no plugin, a library *.so; '" MILLRACE_BINARY_DIR "/tests/"});
  unsetenv("MILLRACE_PLUGIN_PATH");
}
// Ours stays, with all that its plugin registers.
TEST_F(Mistakes, APluginWithTheNameOfAStageOfOurs) {
  setenv("MILLRACE_PLUGIN_PATH", MILLRACE_BINARY_DIR "/tests/twin", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  refuse("flip_x = 0.5", "flip_x = 1.5");
  refuse("\"augment\", ", "\"free_name\", ");
  unsetenv("MILLRACE_PLUGIN_PATH");  // NOLINT(concurrency-mt-unsafe)
}
TEST_F(Mistakes, UnknownBackend) {
  expect("epochs = 1", "devices = \"gpx\"", 2, {"t.toml:3:11: no backend 'gpx' for devices", "cpu"});
}

TEST_F(Mistakes, SharesThatDoNotFitTheDevices) { refuse("epochs = 1", "load = [1, 2]\ndevices = \"cpu\""); }
TEST_F(Mistakes, ADeviceOfTheCommandLineThatIsNotThere) {
  const Outcome outcome = run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--set", "data.path=" + shapes(),
                                       "--set", "run.folder=", "--devices", "cpu:7"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "pipeline-run: --devices: devices = \"cpu:7\": cpu:7 does not exist; this machine has 1 of them, numbered from 0\n");
}
TEST_F(Mistakes, ADeviceThatIsNotThereIsFoundBeforeDataIsTouched) {
  EXPECT_MESSAGE(refused(run_command(
      {tool("pipeline-run"), pipeline("quickstart.toml"), "--set", "data.path=/nowhere", "--set", "run.devices=cpu:7"})));
}

TEST_F(Mistakes, ABackendThatWasNotBuiltOrHasNoDevice) {
  const Outcome outcome = run("epochs = 1", "epochs = 1\ndevices = \"cuda\"");
  if (outcome.code == 0) GTEST_SKIP() << "there is a device";
  if (outcome.code == 2) {
    EXPECT_NE(outcome.err.find("no backend 'cuda' for devices; there"), std::string::npos) << outcome.err;
  } else {
    EXPECT_EQ(outcome.code, 4) << outcome.err;
    EXPECT_NE(outcome.err.find("t.toml:4:11: devices = \"cuda\": backend 'cuda' has no usable device: "), std::string::npos)
        << outcome.err;
  }
}

// The lines that a message proposes: those that begin with four spaces.
std::vector<std::string> proposed_lines(const std::string& message) {
  std::vector<std::string> lines;
  std::istringstream in(message);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("    ")) lines.push_back(line.substr(4));
  }
  return lines;
}

TEST_F(Mistakes, VaryingShapesAndEachRemedyThatIsProposedForThem) {
  const std::string table = "[train.decode_image]\nsize = [32, 32]\n";
  const Outcome refused = run(table, "");
  EXPECT_EQ(refused.code, 2);
  EXPECT_MESSAGE(refused.err);
  const std::vector<std::string> lines = proposed_lines(refused.err);
  ASSERT_EQ(lines.size(), 6U) << refused.err;
  const std::string header = lines[0] + "\n" + lines[1] + "\n";
  for (const std::string& remedy : {lines[2] + "\n", lines[3] + "\n" + lines[4] + "\n", lines[5] + "\n"}) {
    const Outcome outcome = run(table, header + remedy);
    EXPECT_EQ(outcome.code, 0) << header << remedy << outcome.err;
  }
}

TEST_F(Mistakes, AValidationOfOtherClasses) {
  const std::string validation = R"([validate]
every = "end"
flow  = ["read", "decode_image", "batch", "forward", "metrics"]

[validate.read]
stage = "read_folder"
path  = ")" + shapes() + R"(/test"
only  = [ONLY]

[validate.decode_image]
size = [32, 32]

[validate.batch]
size = 20
last = "keep"

)";
  const auto only = [&](const std::string& names, int code, const std::vector<std::string>& said) {
    expect("[train.optimizer]", replaced(validation, "ONLY", names) + "[train.optimizer]", code, said);
  };
  only("\"checkerboard\", \"cross\"", 2,
       {"[validate.read]: label 1 is class 'cross' here and 'circle' in [train]; both need the same classes in the same order"});
  only("\"checkerboard\", \"circle\"", 0, {"[validate.read] has 2 of the 10 classes of [train]: no '"});
}
TEST_F(Mistakes, AValidationThatReportsNothing) {
  const Outcome outcome =
      run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--check", "--set", "data.path=" + shapes(), "--set",
                   R"(validate.flow=["read", "decode_image", "batch", "forward"])"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no stage of [validate] reports or writes the network's results; put 'metrics' into"),
            std::string::npos)
      << outcome.err;
}
TEST_F(Mistakes, TargetsThatNoLossTakes) { refuse("\"read_folder\"\npath   ", "\"read_pairs\"\nimages "); }
TEST_F(Mistakes, ALossThatFindsNoTargets) {
  refuse("[train.optimizer]", "[train.forward_backward]\nloss = \"mean_squared_error\"\n\n[train.optimizer]");
  refuse("[train.optimizer]", "[train.forward_backward]\nloss = \"pixel_cross_entropy\"\n\n[train.optimizer]");
}
TEST_F(Mistakes, ABatchThatIsLargerThanAnEpoch) { refuse("size = 100", "size = 100000", 3); }
TEST_F(Mistakes, InTheTableOfALoss) {
  const auto loss = [&](const std::string& text) {
    refuse("[train.optimizer]", "[train.forward_backward]\nloss = " + text + "\n\n[train.optimizer]");
  };
  loss("\"cross_entrop\"");
  loss("{ label_smoothin = 0.1 }");
  loss("{ tyype = \"cross_entropy\" }");
  loss("{ label_smoothing = 2 }");
  loss("{ reduction = \"median\" }");
  loss("3");
  loss("{ type = 3 }");
  loss("{ class_weights = [1, 2] }");
}
TEST_F(Mistakes, SeveralReplicasWhoseGradientsNobodySums) { refuse("folder = \"\"", "folder = \"\"\ndevices = \"cpu*2\""); }
// Flips run on the device; changes of pixels on the host would not reach it.
TEST_F(Mistakes, ChangesOfPixelsBehindACacheOfDevices) {
  const auto behind = [&](const std::string& stages, const std::string& keys) {
    refuse("flow = [\"read\", \"decode_image\", \"augment\",",
           "cache.device = true\n" + keys + "\nflow = [\"read\", \"decode_image\", \"cache\", " + stages);
  };
  behind("\"noise\", \"resize\", \"augment\",", "noise.deviation = 5\nresize.size = [40, 40]");
  behind("\"pad\", \"augment\",", "pad.margin = 2");
  behind("\"augment\", \"colours\",", "colours = { stage = \"augment\", brightness = [0.5, 1.5] }");
}

TEST_F(Mistakes, MissingFolderIsUnusableData) { refuse("/train", "/trian", 3); }

class BrokenJpeg : public Mistakes {
 protected:
  BrokenJpeg() {
    std::filesystem::copy(shapes(), folder_ / "shapes", std::filesystem::copy_options::recursive);
    const auto first = std::filesystem::recursive_directory_iterator(folder_ / "shapes/train");
    for (const auto& entry : first) {
      if (!entry.is_regular_file()) continue;
      broken_ = entry.path().string();
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
      break;
    }
  }
  std::string broken_;
};

TEST_F(BrokenJpeg, IsReplacedNamedAndCounted) {
  const Outcome outcome =
      run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--set", "data.path=" + (folder_ / "shapes"),
                   "--set", "run.folder=" + (folder_ / "runs"), "--set", "run.epochs=1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(broken_), std::string::npos) << outcome.err;
  EXPECT_EQ(events(outcome, "end").back().at("bad_samples"), 1);
}

TEST_F(BrokenJpeg, EndsTheRunWhenTheFileSaysSo) {
  const Outcome outcome =
      run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet", "--set", "data.path=" + (folder_ / "shapes"),
                   "--set", "run.folder=", "--set", "train.batch.bad_samples=fail"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find(broken_), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("stage 'train.batch' (" + pipeline("quickstart.toml") + ":"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::test
