// A run's folder describes it correctly: pipeline.toml, card.md, and later uses of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "command.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kNetwork = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "relu" }, { op = "global_average_pool" },
           { op = "linear", out = "${classes}" } ]
)";

// quickstart.toml made small: 2 epochs of 4 steps, on drawn shapes.
class RecordTest : public testing::Test {
 protected:
  RecordTest() { std::ofstream(folder_ / "network.toml") << kNetwork; }

  Outcome run(const std::string& name, const Words& options = {}) const {
    Words words =
        with({tool("pipeline-run"), pipeline("quickstart.toml"), "--name", name},
             {"data.path=" + shapes(), "network.use=" + (folder_ / "network.toml"), "run.folder=" + (folder_ / "runs")}, options);
    if (std::ranges::find(options, "--epochs") == options.end()) words.insert(words.end(), {"--epochs", "2"});
    return run_command(words);
  }
  fs::path run_of(const std::string& name) const { return fs::canonical(folder_.path() / "runs" / name / "latest"); }
  std::string pipeline_of(const std::string& name) const { return read_file(run_of(name) / "pipeline.toml"); }
  std::string card_of(const std::string& name) const { return read_file(run_of(name) / "card.md"); }

  const TemporaryFolder folder_;
};

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The text in a card's format.
std::string in_card(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::string("-_.").find(c) == std::string::npos ? std::string(1, c) : std::string("\\") + c;
  return out;
}

TEST_F(RecordTest, NamesTheWeightsThatAnOptionBeganWith) {
  ASSERT_EQ(run("first").code, 0);
  EXPECT_FALSE(holds(card_of("first"), "began from"));
  const std::string weights = (run_of("first") / "weights.safetensors").string();
  const Outcome second = succeeded(run("second", {"--weights", weights}));
  EXPECT_TRUE(holds(pipeline_of("second"), "weights = \"" + weights + "\"")) << pipeline_of("second");
  EXPECT_TRUE(holds(card_of("second"), "| began from | " + in_card(weights) + " |")) << card_of("second");

  fs::remove_all(run_of("first"));  // a resumed run has its weights in its checkpoint
  const Outcome resumed = succeeded(run("second", {"--resume", "--epochs", "3", "--allow-change", "run.epochs"}));
  EXPECT_TRUE(holds(pipeline_of("second"), "weights = \"" + weights + "\"")) << "though no option says it now";
  const Outcome of_folder = succeeded(run_command({tool("pipeline-run"), "--resume", run_of("second").string()}));
}

TEST_F(RecordTest, LeavesOutHowACallTalks) {
  ASSERT_EQ(run("silent", {"--quiet", "--json"}).code, 0);
  const Outcome shown = run_command({tool("pipeline-inspect"), run_of("silent").string()});
  EXPECT_TRUE(holds(shown.out, "run 'quickstart'") || holds(shown.out, "run 'silent'")) << shown.out << shown.err;
  for (const char* word : {"quiet", "standard_output"}) EXPECT_FALSE(holds(pipeline_of("silent"), word)) << word;
  for (const char* word : {"quiet", "--json", "standard_output"}) EXPECT_FALSE(holds(card_of("silent"), word)) << word;
  const Outcome measured =
      succeeded(run_command({tool("pipeline-run"), "--graph", "validate", "--weights", run_of("silent").string()}));
  EXPECT_EQ(measured.out, "");
  EXPECT_TRUE(holds(measured.err, "validate: ")) << measured.err;
}

TEST_F(RecordTest, TellsOfAResumedRunWhatHeldWhen) {
  ASSERT_EQ(run("long", {"--set", "run.best=validate.loss"}).code, 0);
  const std::string first = card_of("long");
  for (const char* part : {"| began | 20", "| ended | 20", "| steps | 8: 2 epochs |", "| best step | ", "of step 8, the last"})
    EXPECT_TRUE(holds(first, part)) << part << '\n' << first;
  EXPECT_FALSE(holds(first, "## Changes"));
  EXPECT_TRUE(holds(first, "| output | 10\\: checkerboard, circle, ")) << first;
  EXPECT_TRUE(holds(first, "--predict FOLDER --weights " + run_of("long").parent_path().string())) << first;

  const Outcome longer =
      succeeded(run("long", {"--set", "run.best=validate.loss", "--epochs", "3", "--lr", "0.0002", "--resume",
                             folder_ / "runs/long/latest", "--allow-change", "run", "--allow-change", "train"}));
  const std::string second = card_of("long");
  EXPECT_TRUE(holds(second, "--resume " + run_of("long").string())) << second;
  EXPECT_TRUE(holds(second, "| key | until step 8 | since then |")) << second;
  EXPECT_TRUE(holds(second, "| train\\.optimizer\\.learning\\_rate\\.initial | 0\\.1 | 0\\.0002 |")) << second;
  EXPECT_TRUE(holds(second, "| began | 20") && holds(second, "| resumed | 20")) << second;
  EXPECT_TRUE(holds(second, "| steps | 12: 3 epochs |")) << second;

  const std::string figures = second.substr(second.find("## Figures"), second.find("## Network") - second.find("## Figures"));
  const Outcome none = succeeded(run_command({tool("pipeline-run"), "--resume", run_of("long").string()}));
  EXPECT_TRUE(holds(card_of("long"), figures)) << "no step was left, and what was measured is so still" << card_of("long");
}

TEST_F(RecordTest, CountsTheStepsOfARunThatBeginsLater) {
  ASSERT_EQ(run("first").code, 0);
  const Outcome later = succeeded(run("later", {"--from", "2:1", "--weights", folder_.path() / "runs/first/latest"}));
  const std::string weights = (run_of("first") / "weights.safetensors").string();  // the link leads to later runs
  EXPECT_TRUE(holds(card_of("later"), "| began from | " + in_card(weights) + " |")) << card_of("later");
  EXPECT_TRUE(holds(card_of("later"), "| steps | 4, from step 5 to 8: 1 epoch |")) << card_of("later");
}

// A run from its own folder, with relative paths: data of a list, and a network above it.
class RunFolderTest : public RecordTest {
 protected:
  RunFolderTest() {
    fs::create_directories(folder_.path() / "work");
    fs::copy(fs::path(shapes()) / "train", folder_.path() / "work/images", fs::copy_options::recursive);
    write_list(40);
    std::ofstream(folder_ / "work/mine.toml") << "extends = \"classify\"\n[run]\nepochs = 2\n[data]\npath = \"list.csv\"\n"
                                                 "[image]\nside = 32\nshort = 32\n[train.batch]\nsize = 40\n"
                                                 "[network]\nuse = \"../network.toml\"\n";
    const Outcome outcome = succeeded(in("work", {"mine.toml", "--devices", "cpu"}));
    run_ = fs::canonical(folder_.path() / "work/runs/mine/latest");
    weights_ = read_file(run_ / "weights.safetensors");
  }
  // At most `most` images of each class.
  void write_list(std::size_t most) const {
    std::ofstream list(folder_ / "work/list.csv");
    list << "file_name,label\n";
    for (const auto& folder : fs::directory_iterator(folder_.path() / "work/images")) {
      std::size_t count = 0;
      for (const auto& entry : fs::directory_iterator(folder.path())) {
        if (count++ == most) break;
        const std::string name = folder.path().filename().string();
        list << "images/" << name << '/' << entry.path().filename().string() << ',' << name << '\n';
      }
    }
  }
  Outcome in(const std::string& folder, const Words& options) const {
    return run_command(with({"/usr/bin/env", "--chdir=" + (folder_ / folder), tool("pipeline-run")}, {}, options));
  }
  // Repeats the last epoch from the checkpoint before it.
  void expect_the_same_weights(const std::string& folder, const fs::path& run, std::vector<std::string> warnings) const {
    std::vector<std::string> checkpoints;
    for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
      if (entry.is_directory()) checkpoints.push_back(entry.path().string());
    }
    std::ranges::sort(checkpoints);
    ASSERT_EQ(checkpoints.size(), 2U);
    fs::remove(run / "weights.safetensors");
    const Outcome resumed = succeeded(in(folder, {"--resume", checkpoints[0], "--devices", "cpu"}));
    EXPECT_TRUE(read_file(run / "weights.safetensors") == weights_) << resumed.err;
    for (const std::string& warning : warnings) EXPECT_TRUE(holds(resumed.err, warning)) << warning << '\n' << resumed.err;
    EXPECT_EQ(holds(resumed.err, "has been edited"), !warnings.empty()) << resumed.err;
    const Outcome measured = succeeded(in(folder, {"--graph", "validate", "--weights", run.string(), "--devices", "cpu"}));
    EXPECT_EQ(holds(measured.err, "has been edited"), !warnings.empty()) << measured.err;
    const Outcome checked = succeeded(in(folder, {(run / "pipeline.toml").string(), "--check"}));
  }

  fs::path run_;
  std::string weights_;
};

TEST_F(RunFolderTest, IsEnoughFromAnywhere) {
  fs::create_directories(folder_.path() / "else");
  expect_the_same_weights("else", run_, {});
  const std::string record = read_file(run_ / "record.json");
  for (const char* part :
       {"\"Millrace\"", "\"plugin read_list\"", "\"listing_hash\"", "\"sha256\"", "list.csv", "network.toml", "mine.toml"})
    EXPECT_TRUE(holds(record, part)) << part << '\n' << record;
}

TEST_F(RunFolderTest, UsesWhatTheRunUsedAndNamesWhatWasEdited) {
  std::string network = kNetwork;
  network.replace(network.find("out = 8"), 7, "out = 9");
  std::ofstream(folder_ / "network.toml") << network;
  write_list(20);
  std::ofstream(folder_ / "work/mine.toml", std::ios::app) << "[train.augment]\nflip_x = 0.1\n";
  const std::string began = "' has been edited since the run in '" + run_.string() + "' began: the run's copy";
  expect_the_same_weights("work", run_,
                          {"the network '" + folder_ / "network.toml" + began, "the list '" + folder_ / "work/list.csv" + began,
                           "'" + folder_ / "work/mine.toml" + began});
}

TEST_F(RunFolderTest, MayBeMovedWithItsData) {
  fs::rename(folder_.path() / "work", folder_.path() / "moved");
  const fs::path run = folder_.path() / "moved" / fs::relative(run_, fs::weakly_canonical(folder_.path() / "work"));
  expect_the_same_weights("moved", run, {});
}

TEST_F(RunFolderTest, OfAResumedRunSaysWhereDataHaveChanged) {
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "work/images")) {
    if (entry.is_regular_file()) std::ofstream(entry.path(), std::ios::app) << ' ';  // after the end of the image
  }
  const Outcome resumed =
      in("work", {"mine.toml", "--devices", "cpu", "--resume", "--epochs", "3", "--allow-change", "run.epochs"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(holds(resumed.err, "the data have changed since the checkpoint '")) << resumed.err;
  EXPECT_TRUE(holds(resumed.err, "64 of 64 samples that were compared hold other bytes, such as '")) << resumed.err;
}

}  // namespace
}  // namespace millrace::test
