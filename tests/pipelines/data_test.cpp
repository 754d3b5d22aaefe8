// pipeline-data as users run it, and a run's use of caches and bad samples.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "command.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

// The data stages of a small classifier over `root`/train, without a network.
std::string data_file(const TemporaryFolder& folder, const std::string& root, const std::string& flow = R"("decode_image")",
                      const std::string& more = "") {
  std::string path = folder / "data.toml";
  std::ofstream(path) << "[run]\nname = \"d\"\nepochs = 3\nfolder = \"" << folder / "runs"
                      << "\"\n\n[train]\nflow = [\"read\", " << flow
                      << ", \"batch\"]\n\n[train.read]\nstage = \"read_folder\"\npath = \"" << root << "/train\"\n"
                      << "shuffle = \"every-epoch\"\n\n[train.decode_image]\nsize = [32, 32]\n\n[train.batch]\nsize = 50\n"
                      << more;
  return path;
}

Outcome data(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tool("pipeline-data"));
  return run_command(arguments);
}

std::size_t lines(const std::string& text) { return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')); }

// A copy of the shapes that may be damaged: 400 training images, of which some are broken.
std::string spoilt_shapes(const TemporaryFolder& folder, int broken) {
  const std::string root = folder / "shapes";
  std::filesystem::copy(shapes(), root, std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root + "/train")) {
    if (!entry.is_regular_file()) continue;
    if (broken-- <= 0) break;
    std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
  }
  return root;
}

TEST(DataTool, CountsByLabel) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(data({"count", data_file(folder, shapes())}));
  EXPECT_NE(outcome.out.find("checkerboard                             40   10.00%"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("in all                                  400"), std::string::npos) << outcome.out;
  const Outcome part = succeeded(data({"count", data_file(folder, shapes()), "--set", "train.read.only=[\"star\", \"ring\"]",
                                       "--set", "train.read.part=[0, 0.25]"}));
  EXPECT_NE(part.out.find("     0  star                                     10   50.00%"), std::string::npos) << part.out;
  EXPECT_NE(part.out.find("     1  ring                                     10   50.00%"), std::string::npos) << part.out;
}

TEST(DataTool, GivesMeanAndDeviationOfEachChannel) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(data({"statistics", data_file(folder, shapes())}));
  EXPECT_NE(outcome.out.find("images     400, and 0 bad"), std::string::npos) << outcome.out;
  double mean[3] = {}, deviation[3] = {};
  const std::size_t at = outcome.out.find("mean = [");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(outcome.out.c_str() + at, "mean = [%lf, %lf, %lf], deviation = [%lf, %lf, %lf]", &mean[0], &mean[1],
                        &mean[2], &deviation[0], &deviation[1], &deviation[2]),
            6);
  for (int channel = 0; channel < 3; ++channel) {
    EXPECT_NEAR(mean[channel], 0.5, 0.1);  // colours are drawn uniformly
    EXPECT_GT(deviation[channel], 0.1);
    EXPECT_LT(deviation[channel], 0.4);
  }
}

TEST(DataTool, ListsEveryBadSampleAndRepeatsOne) {
  const TemporaryFolder folder;
  const std::string file = data_file(folder, spoilt_shapes(folder, 5));
  const Outcome check = data({"check", file});
  EXPECT_EQ(check.code, 3);
  ASSERT_EQ(lines(check.out), 5U) << check.out;
  EXPECT_NE(check.err.find("5 of 400 samples are bad"), std::string::npos) << check.err;
  const Json first = Json::parse(check.out.substr(0, check.out.find('\n')));
  EXPECT_EQ(first["stage"], "decode_image");
  EXPECT_NE(first["cause"].get<std::string>().find("truncated"), std::string::npos) << first;
  EXPECT_EQ(data({"check", data_file(folder, shapes())}).code, 0);

  const std::string whole = data_file(folder, folder / "shapes");
  ASSERT_EQ(run_command({tool("pipeline-run"), whole, "--quiet", "--set", "train.batch.bad_sample_budget=100"}).code, 0);
  const std::string ledger = find_file(folder / "runs", "quarantine.jsonl");
  ASSERT_FALSE(ledger.empty());
  const Outcome again = data({"replay", ledger, "--line", "2"});
  EXPECT_EQ(again.code, 3) << again.err;
  EXPECT_NE(again.out.find("was       the JPEG is truncated"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("is        the JPEG is truncated"), std::string::npos) << again.out;
  EXPECT_EQ(data({"replay", ledger, "--line", "9999"}).code, 2);
  // Another file has its number now.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "shapes/train")) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::filesystem::remove(*std::min_element(files.begin(), files.end()));
  const Outcome moved = data({"replay", ledger, "--line", "2"});
  EXPECT_EQ(moved.code, 3);
  EXPECT_NE(moved.err.find("the data or the pipeline have changed"), std::string::npos) << moved.out << moved.err;
}

TEST(DataTool, DividesADataSetIntoLists) {
  const TemporaryFolder folder;
  const Outcome outcome =
      succeeded(data({"split", data_file(folder, shapes()), "train=0.75", "test=0.25", "--out", folder / "lists"}));
  std::vector<std::string> names;
  for (const auto& [list, count] : {std::pair{"train.csv", 300U}, std::pair{"test.csv", 100U}}) {
    std::ifstream file(folder / (std::string("lists/") + list));
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "file_name,label");
    std::size_t found = 0;
    while (std::getline(file, line)) {
      ++found;
      names.push_back(line);
    }
    EXPECT_EQ(found, count);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_NE(outcome.out.find("classes = [\""), std::string::npos) << outcome.out;
  EXPECT_EQ(data({"split", data_file(folder, shapes()), "train=0.75", "test=0.5"}).code, 2);
  const Outcome limited = data({"split", data_file(folder, shapes()), "a=0.5", "b=0.5", "--set", "train.read.limit=10"});
  EXPECT_EQ(limited.code, 2);
  EXPECT_NE(limited.err.find("train.read.limit shortens this set"), std::string::npos) << limited.err;
}

TEST(Cache, LabelsOfChosenClassesAreNumberedOnce) {
  const TemporaryFolder folder;
  const std::string here = "[\"star\", \"ring\"]", turned = "[\"ring\", \"star\"]";
  const auto losses = [&](const std::string& flow, const std::string& only, const std::string& more) {
    const std::string file = folder / "only.toml";
    std::ofstream(file) << "extends = \"" << pipeline("quickstart.toml") << "\"\n[train]\nflow = [\"read\", " << flow
                        << ", \"augment\", \"batch\", \"forward_backward\", \"allreduce\", \"optimizer\", \"metrics\"]\n"
                        << more;
    const Outcome outcome =
        run_command({tool("pipeline-run"), file, "--json", "--set", "data.path=" + shapes(), "--set", "run.folder=", "--set",
                     "run.epochs=2", "--set", "network.classes=2", "--set", "train.batch.size=20", "--set",
                     "train.read.only=" + only, "--set", "validate.read.only=" + only});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<double> found;
    for (const Json& epoch : events(outcome, "epoch")) found.push_back(epoch.at("loss"));
    return found;
  };
  const auto plain = losses("\"decode_image\"", here, "");
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(losses("\"decode_image\", \"cache\"", here, ""), plain);
  const std::string file = "[train.cache]\nfile = \"" + folder / "set.cache" + "\"\n";
  losses("\"decode_image\", \"cache\"", turned, file);
  ASSERT_TRUE(std::filesystem::exists(folder / "set.cache"));
  EXPECT_EQ(losses("\"decode_image\", \"cache\"", here, file), plain) << "out of a file with the labels of another order";
}

// Runs with a cache share one file.
std::string stream(const TemporaryFolder& folder, bool is_cached, const std::vector<std::string>& settings) {
  const std::string file = folder / "q.toml";
  std::ofstream(file) << "extends = \"" << pipeline("quickstart.toml") << "\"\n[train]\nflow = [\"read\", \"decode_image\", "
                      << (is_cached ? "\"cache\", " : "")
                      << "\"batch\", \"forward_backward\", \"allreduce\", \"optimizer\", \"metrics\"]\n"
                      << (is_cached ? "[train.cache]\nfile = \"" + folder / "set.cache" + "\"\n" : "");
  std::vector<std::string> command = {tool("pipeline-run"), file, "--json", "--graph", "train", "--set", "data.path=" + shapes()};
  for (const char* set : {"run.folder=", "run.epochs=1", "train.batch.size=20"}) command.insert(command.end(), {"--set", set});
  for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
  const Outcome outcome = succeeded(run_command(command));
  return outcome.code == 0 ? events(outcome, "epoch").at(0).at("stream_hash").get<std::string>() : "";
}

// Each is followed by a run without it, and by itself again.
TEST(Cache, AFileGivesTheLabelsThatTheFileOfTheRunAsksFor) {
  const TemporaryFolder folder;
  std::vector<std::string> classes;
  for (const auto& entry : std::filesystem::directory_iterator(shapes() + "/train"))
    classes.push_back('"' + entry.path().filename().string() + '"');
  std::sort(classes.rbegin(), classes.rend());
  const std::string all = stream(folder, false, {});
  for (const std::string& setting :
       {std::string(R"(train.read.only=["star", "ring"])"), fmt::format("train.read.classes=[{}]", fmt::join(classes, ", "))}) {
    const std::string plain = stream(folder, false, {setting});
    EXPECT_NE(plain, all);
    EXPECT_EQ(stream(folder, true, {setting}), plain);
    EXPECT_EQ(stream(folder, true, {}), all) << "out of a file that was made with " << setting;
    EXPECT_EQ(stream(folder, true, {setting}), plain) << "out of a file that was made without it";
  }
}

TEST(Cache, AFileGivesTheNumbersOfTheColumnsThatAreAskedFor) {
  const TemporaryFolder folder;
  {
    std::ofstream list(folder / "list.csv");
    list << "file_name,angle,speed\n";
    for (int i = 0; const auto& entry : std::filesystem::directory_iterator(shapes() + "/train/star"))
      list << entry.path().string() << ',' << i++ % 2 << ",0.5\n";
  }
  const auto of = [&](bool is_cached, const std::string& column) {
    return stream(
        folder, is_cached,
        {"train.read.stage=read_list", "train.read.path=" + folder / "list.csv", "train.read.numbers=[\"" + column + "\"]",
         "network.classes=1", "train.forward_backward.loss=mean_squared_error", "train.optimizer.learning_rate=1e-6"});
  };
  const std::string angle = of(false, "angle"), speed = of(false, "speed");
  EXPECT_NE(angle, speed);
  EXPECT_EQ(of(true, "angle"), angle);
  EXPECT_EQ(of(true, "speed"), speed) << "out of a file with the numbers of another column";
}

}  // namespace
}  // namespace millrace::test
