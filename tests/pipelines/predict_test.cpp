// Predictions, from a file of weights to files of classes and features.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "command.h"
#include "pairs_fixture.h"
#include "running_program.h"
#include "testkit/messages.h"
#include "weights/safetensors.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTestImages = 130;

// One epoch of quickstart.toml, trained once for this program.
const std::string& weights() {
  static const TemporaryFolder folder;
  static const std::string file = [] {
    const Outcome outcome =
        run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet", "--set", "data.path=" + shapes(), "--set",
                     "run.folder=" + folder.path().string(), "--set", "run.epochs=1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return find_file(folder.path(), "weights.safetensors").string();
  }();
  return file;
}

// The rows of a CSV file without quotes, by fields; the first row holds names.
std::vector<std::vector<std::string>> rows_of(const std::string& file) {
  std::ifstream stream(file);
  EXPECT_TRUE(stream) << file;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(stream, line);) {
    EXPECT_EQ(line.back(), '\r');
    line.pop_back();
    std::istringstream fields(line);
    rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
  }
  return rows;
}

class Predict : public testing::Test {
 protected:
  // quickstart.toml with a graph [predict].
  std::string file(const std::string& flow, const std::string& more = "") {
    std::ofstream(folder_ / "predict.toml") << "extends = \"" << pipeline("quickstart.toml")
                                            << "\"\n[predict]\nevery = \"never\"\n"
                                            << "flow = [\"read\", \"decode_image\", \"batch\", \"forward\", " << flow << "]\n"
                                            << "[predict.read]\nstage = \"read_folder\"\npath = \"${data.path}/test\"\n"
                                            << "[predict.decode_image]\nsize = [32, 32]\n[predict.batch]\nsize = 48\n"
                                            << more;
    return folder_ / "predict.toml";
  }
  Outcome predict(const std::string& toml, std::vector<std::string> more = {}, const std::string& root = shapes()) {
    return run_command(with({tool("pipeline-run"), toml, "--graph", "predict", "--weights", weights(), "--json"},
                            {"data.path=" + root, "run.folder="}, more));
  }
  std::string classes_to(const std::string& name, const std::string& more = "") const {
    return "[predict.write_classes]\nfile = \"" + (folder_ / name) + "\"\n" + more;
  }
  TemporaryFolder folder_;
};

TEST_F(Predict, FiguresAreThoseOfValidationBitForBit) {
  const std::string toml = file("\"metrics\", \"write_classes\"", classes_to("p.csv"));
  const Outcome outcome = succeeded(predict(toml));
  const Outcome validation =
      run_command({tool("pipeline-run"), toml, "--graph", "validate", "--weights", weights(), "--json", "--set",
                   "data.path=" + shapes(), "--set", "run.folder=", "--set", "validate.batch.size=48"});
  ASSERT_EQ(validation.code, 0) << validation.err;
  const auto here = events(outcome, "validate").at(0), there = events(validation, "validate").at(0);
  for (const char* key : {"samples", "loss", "accuracy", "top5", "stream_hash"}) EXPECT_EQ(here.at(key), there.at(key)) << key;

  const auto rows = rows_of(folder_ / "p.csv");
  ASSERT_EQ(rows.size(), kTestImages + 1) << "with the last, partial batch";
  EXPECT_EQ(rows[0].at(2), "class_1");
  double right = 0, among_five = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 12U);
    const std::string& label = rows[i][1];
    EXPECT_NE(rows[i][0].find("/test/" + label + "/"), std::string::npos) << rows[i][0];
    right += rows[i][2] == label;
    for (std::size_t k = 2; k < rows[i].size(); k += 2) among_five += rows[i][k] == label;
    EXPECT_GE(std::stod(rows[i][3]), std::stod(rows[i][5]));
  }
  EXPECT_EQ(right / kTestImages, here.at("accuracy").get<double>());
  EXPECT_EQ(among_five / kTestImages, here.at("top5").get<double>());
}

TEST_F(Predict, TheWorstMistakesAreThoseOfAnyNumberOfReplicasWithoutABrokenImage) {
  const std::string photos = folder_ / "photos";
  fs::copy(shapes() + "/test", photos, fs::copy_options::recursive);
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) files.insert(entry.path().string());
  }
  const std::string broken = *files.begin();
  fs::resize_file(broken, fs::file_size(broken) / 2);
  std::map<std::string, std::vector<std::vector<std::string>>> rows;
  for (const char* devices : {"cpu", "cpu*2"}) {
    const std::string toml = file("\"write_evaluation\"", "[predict.write_evaluation]\nfolder = \"" + (folder_ / "e") + "\"\n");
    const Outcome outcome = succeeded(predict(toml, {"--devices", devices, "--set", "predict.read.path=" + photos}));
    for (const char* picture : {"e/confusion.png", "e/mistakes.png"}) EXPECT_GT(fs::file_size(folder_ / picture), 1000U);
    EXPECT_EQ(rows_of(folder_ / "e/figures.csv").at(1).at(1), std::to_string(kTestImages - 1));
    double wrong = 0;
    for (const auto& row : rows_of(folder_ / "e/confusion.csv")) {
      if (row[0] != "class" && row[0] != row[1]) wrong += std::stod(row[2]);
    }
    rows[devices] = rows_of(folder_ / "e/mistakes.csv");
    EXPECT_GT(wrong, 0);
    EXPECT_EQ(rows[devices].size(), 1 + std::min(std::size_t{36}, static_cast<std::size_t>(wrong)));
  }
  ASSERT_EQ(rows["cpu"].size(), rows["cpu*2"].size());
  for (std::size_t i = 1; i < rows["cpu"].size(); ++i) {
    const std::vector<std::string>& row = rows["cpu"][i];
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(row.at(k), rows["cpu*2"][i].at(k)) << i;
    EXPECT_NE(row[0], broken);
    EXPECT_NE(row[2], row[3]);
    EXPECT_TRUE(i == 1 || std::stod(row.at(5)) <= std::stod(rows["cpu"][i - 1].at(5))) << i;
  }
}

TEST_F(Predict, RowsAreInOrderOfTheSourceForAnyNumberOfReplicas) {
  std::vector<std::string> expected;
  for (const auto& entry : fs::recursive_directory_iterator(shapes() + "/test")) {
    if (entry.is_regular_file()) expected.push_back(entry.path().string());
  }
  std::sort(expected.begin(), expected.end());
  std::map<std::string, std::vector<std::vector<std::string>>> rows;
  for (const char* devices : {"cpu", "cpu*3"}) {
    const Outcome outcome =
        succeeded(predict(file("\"write_classes\"", classes_to("p.csv", "top = 1\n")), {"--devices", devices}));
    rows[devices] = rows_of(folder_ / "p.csv");
    ASSERT_EQ(rows[devices].size(), expected.size() + 1) << devices;
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(rows[devices][i + 1].at(0), expected[i]) << devices;
  }
  for (std::size_t i = 1; i < rows["cpu"].size(); ++i) EXPECT_EQ(rows["cpu"][i][2], rows["cpu*3"][i][2]);
}

TEST_F(Predict, RunsOnlyWhenItIsAskedFor) {
  const std::string toml = file("\"write_classes\"", classes_to("p.csv"));
  const std::vector<std::string> more = {
      "--set", "data.path=" + shapes(), "--set", "run.folder=", "--set", "predict.read.path=/nowhere"};
  const Outcome whole = succeeded(run_command(with({tool("pipeline-run"), toml, "--check"}, {}, more)));
  EXPECT_EQ(whole.out.find("[predict]"), std::string::npos) << whole.out;
  const Outcome asked = predict(toml, {"--set", "predict.read.path=/nowhere"});
  EXPECT_NE(asked.code, 0);
  EXPECT_NE(asked.err.find("/nowhere"), std::string::npos) << asked.err;
}

TEST_F(Predict, RefusesWhatWouldBeOfNoUse) {
  const std::string toml = file("\"write_classes\"", classes_to("p.csv"));
  const Outcome unweighted = run_command(
      {tool("pipeline-run"), toml, "--graph", "predict", "--set", "data.path=" + shapes(), "--set", "run.folder=", "--quiet"});
  EXPECT_EQ(unweighted.code, 2);
  EXPECT_NE(unweighted.err.find("--weights FILE"), std::string::npos) << unweighted.err;
  EXPECT_MESSAGE(refused(predict(toml, {"--set", "predict.batch.bad_samples=replace"})));
  EXPECT_MESSAGE(refused(predict(toml, {"--set", "predict.read.balance=true"})));
  EXPECT_FALSE(fs::exists(folder_ / "p.csv"));
}

TEST_F(Predict, StoppedByASignalItSaysWhereTheRowsAre) {
  constexpr double kPatience = 240;  // seconds, for busy machines
  const std::string toml =
      file("\"slow_sink\", \"write_classes\"", "[predict.slow_sink]\nmilliseconds = 400\n" + classes_to("p.csv"));
  RunningProgram program({tool("pipeline-run"), toml, "--graph", "predict", "--weights", weights(), "--set",
                          "data.path=" + shapes(), "--set", "run.folder=", "--set", "predict.batch.size=8"},
                         {"MILLRACE_PLUGIN_PATH=" MILLRACE_BINARY_DIR "/tests/slow_sink"});
  ASSERT_TRUE(program.reports("predictions arrive\n", kPatience)) << program.err();
  program.send(SIGINT);
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  EXPECT_EQ(program.code(), 128 + SIGINT) << program.err();
  EXPECT_NE(program.err().find("p.csv' is incomplete"), std::string::npos) << program.err();
  EXPECT_FALSE(fs::exists(folder_ / "p.csv"));
}

// MILLRACE_PREDICTIONS: number of images in the longer of two runs; 100,000 for the long form.
TEST_F(Predict, ASlowSinkKeepsMemoryFlatAndTheOrder) {
  const char* const wanted = std::getenv("MILLRACE_PREDICTIONS");  // NOLINT(concurrency-mt-unsafe)
  const std::size_t most = wanted != nullptr ? std::stoul(wanted) : 6000;
  setenv("MILLRACE_PLUGIN_PATH", MILLRACE_BINARY_DIR "/tests/slow_sink", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  std::vector<std::string> images;
  for (const auto& entry : fs::recursive_directory_iterator(shapes() + "/train")) {
    if (entry.is_regular_file()) images.push_back(entry.path().string());
  }
  const auto peak = [&](std::size_t count) {
    std::ofstream list(folder_ / "list.csv");
    list << "file_name\n";
    for (std::size_t i = 0; i < count; ++i) list << images[i % images.size()] << '\n';
    list.close();
    const std::string toml = file("\"slow_sink\", \"write_classes\"", classes_to("p.csv"));
    const Outcome outcome =
        succeeded(predict(toml, {"--set", "predict.read.stage=read_list", "--set", "predict.read.path=" + (folder_ / "list.csv"),
                                 "--set", "predict.read.labels=none"}));
    const auto rows = rows_of(folder_ / "p.csv");
    EXPECT_EQ(rows.size(), count + 1);
    for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i][0], images[(i - 1) % images.size()]) << i;
    return static_cast<double>(outcome.peak_kib) / 1024;
  };
  const double small = peak(most / 4), large = peak(most);
  unsetenv("MILLRACE_PLUGIN_PATH");  // NOLINT(concurrency-mt-unsafe)
  std::printf("%zu images: %.1f MiB, %zu images: %.1f MiB\n", most / 4, small, most, large);
  EXPECT_LT(large, small + 4 + 1e-4 * static_cast<double>(most)) << "a list of paths takes about 30 bytes an image";
}

// The same for separate files: MILLRACE_PREDICTIONS masks, or 1,200.
TEST(PredictMasks, ManyKeepMemoryFlatAndTheOrder) {
  const char* const wanted = std::getenv("MILLRACE_PREDICTIONS");  // NOLINT(concurrency-mt-unsafe)
  const std::size_t most = wanted != nullptr ? std::stoul(wanted) : 1200;
  const TemporaryFolder folder;
  const std::string weights = train_maps(folder.path().string());
  std::vector<std::string> first(4);  // masks of the four images
  const auto peak = [&](std::size_t count) {
    std::ofstream list(folder / "list.csv");
    list << "file_name\n";
    for (std::size_t i = 0; i < count; ++i) list << "images/" << i % first.size() << ".png\n";
    list.close();
    fs::remove_all(folder.path() / "out");
    const Outcome outcome =
        run_command({tool("pipeline-run"), "--predict", folder / "list.csv", "--weights", weights, "--out", folder / "out",
                     "--devices", "cpu", "--set", "predict.write_masks.names=number", "--set", "predict.batch.size=16"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string mask = read_file(folder.path() / "out/masks" / fmt::format("{:08}-{}.png", i, i % first.size()));
      if (i < first.size()) first[i] = mask;
      EXPECT_TRUE(!mask.empty() && mask == first[i % first.size()]) << i;
    }
    const auto files = fs::directory_iterator(folder.path() / "out/masks");
    EXPECT_EQ(static_cast<std::size_t>(std::distance(begin(files), end(files))), count);
    return static_cast<double>(outcome.peak_kib) / 1024;
  };
  const double small = peak(most / 4);
  EXPECT_NE(first[0], first[1]) << "masks that say nothing of the order";
  const double large = peak(most);
  std::printf("%zu masks: %.1f MiB, %zu masks: %.1f MiB\n", most / 4, small, most, large);
  EXPECT_LT(large, small + 4 + 2e-4 * static_cast<double>(most)) << "a list of paths, and the names of files that were written";
}

}  // namespace
}  // namespace millrace::test
