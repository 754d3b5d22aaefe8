// pipeline-run --predict: what it takes, what it leaves behind, and figures beside labels.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <fstream>
#include <sstream>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test::predict_option_test {
namespace {

namespace fs = std::filesystem;

TEST(PredictOption, SaysWhatItNeeds) {
  const auto message = [](const std::vector<std::string>& options) {
    const Outcome outcome = run_command(with({tool("pipeline-run")}, {}, options));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_MESSAGE(message({"--predict", "photos"}));
  EXPECT_MESSAGE(message({"--out", "o", "x.toml"}));
  EXPECT_MESSAGE(message({"--strict", "x.toml"}));
  EXPECT_MESSAGE(message({"--labels", "path", "x.toml"}));
  EXPECT_MESSAGE(message({"--predict", "photos", "x.toml", "--weights", "w"}));
  EXPECT_MESSAGE(message({"--predict", "photos", "--weights", "w", "--graph", "g"}));
}

// An epoch of quickstart.toml, with precision fp32 on the processor.
struct Trained {
  Trained() {
    const Outcome outcome = succeeded(run_command(
        {tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet", "--devices", "cpu", "--set", "data.path=" + shapes(),
         "--set", "run.folder=" + folder.path().string(), "--set", "run.epochs=1", "--set", "run.precision=fp32"}));
    weights = find_file(folder.path(), "weights.safetensors").string();
    metrics = read_file(find_file(folder.path(), "metrics.jsonl"));
  }
  TemporaryFolder folder;
  std::string weights, metrics;
};
const Trained& trained() {
  static const Trained one;
  return one;
}

std::string png_of(int height, int width) {
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * 3), 128);
  return png_bytes({pixels.data(), {height, width, 3}});
}

// The last validation in metrics.jsonl.
nlohmann::json last_validation(const std::string& metrics) {
  nlohmann::json last;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == "validate") last = event;
  }
  return last;
}

class PredictFolder : public testing::Test {
 protected:
  Outcome predict(const std::string& data, const std::vector<std::string>& more = {}) const {
    return run_command(with(
        {tool("pipeline-run"), "--predict", data, "--weights", trained().weights, "--out", folder_ / "out", "--devices", "cpu"},
        {}, more));
  }
  // Photographs 0.jpg, 1.jpg, ... in a folder.
  void copy_photographs(const std::string& to, std::size_t most) const {
    fs::create_directories(folder_ / to);
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(shapes() + "/test")) {
      if (entry.is_regular_file() && count < most) fs::copy(entry.path(), folder_ / fmt::format("{}/{}.jpg", to, count++));
    }
    EXPECT_EQ(count, most);
  }

  TemporaryFolder folder_;
};

TEST_F(PredictFolder, FiguresBesideLabelsAreThoseOfTheValidationBitForBit) {
  const Outcome outcome = succeeded(predict(shapes() + "/test", {"--labels", "path", "--json"}));
  const auto here = events(outcome, "validate").at(0), there = last_validation(trained().metrics);
  for (const char* key : {"samples", "loss", "accuracy", "top5"}) EXPECT_EQ(here.at(key), there.at(key)) << key;
  const std::string figures = read_file(folder_ / "out/evaluation/figures.csv");
  EXPECT_NE(figures.find("images,130\r\naccuracy,"), std::string::npos) << figures;
  EXPECT_TRUE(fs::exists(folder_ / "out/predictions.csv"));
}

TEST_F(PredictFolder, ImageFilesArePredictedAsTheyAreNamed) {
  copy_photographs("photos", 3);
  copy_photographs("photos/more", 1);
  const Outcome outcome = succeeded(predict(folder_ / "photos/2.jpg", {folder_ / "photos/more/0.jpg", folder_ / "photos/0.jpg",
                                                                       "--set", "predict.write_classes.columns=classes"}));
  std::istringstream table(read_file(folder_ / "out/predictions.csv"));
  std::vector<std::string> rows;
  for (std::string row; std::getline(table, row);) rows.push_back(row);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].find("path,label,predicted,"), 0U) << rows[0];
  EXPECT_EQ(std::count(rows[0].begin(), rows[0].end(), ','), 13) << "one for each of ten classes, and the reason of a bad image";
  EXPECT_EQ(rows[1].find((folder_ / "photos/2.jpg") + ",,"), 0U) << rows[1];
  EXPECT_EQ(rows[2].find((folder_ / "photos/more/0.jpg") + ",,"), 0U) << rows[2];
  EXPECT_EQ(predict(folder_ / "photos/1.jpg").code, 0) << "one, in place of those before";
}

// The paths in predictions.csv, below the test's folder.
std::vector<std::string> predicted_paths(const TemporaryFolder& folder) {
  std::istringstream table(read_file(folder / "out/predictions.csv"));
  std::vector<std::string> paths;
  std::string row;
  std::getline(table, row);
  const std::size_t below = (folder / "").size();
  while (std::getline(table, row)) paths.push_back(row.substr(below, row.find(',') - below));
  return paths;
}

TEST_F(PredictFolder, FilesFoldersListsAndPatternsArePredictedInTheOrderInWhichTheyAreNamed) {
  copy_photographs("b", 3);
  copy_photographs("a", 2);
  copy_photographs("c[1]", 3);
  copy_photographs("dd", 12);
  std::ofstream(folder_ / "list.csv") << "file_name\nb/2.jpg\na/0.jpg\n";
  const Outcome mixed =
      succeeded(predict(folder_ / "b/1.jpg", {folder_ / "a", folder_ / "list.csv", folder_ / "c[1]/2.jpg", folder_ / "b/0.jpg",
                                              folder_ / "?/*.jp?", folder_ / "dd/{11,10}.jpg"}));
  EXPECT_EQ(predicted_paths(folder_),
            (std::vector<std::string>{"b/1.jpg", "a/0.jpg", "a/1.jpg", "b/2.jpg", "a/0.jpg", "c[1]/2.jpg", "b/0.jpg", "a/0.jpg",
                                      "a/1.jpg", "b/0.jpg", "b/1.jpg", "b/2.jpg", "dd/11.jpg", "dd/10.jpg"}));
  EXPECT_TRUE(fs::exists(folder_ / "out/images-2.csv"));
  EXPECT_MESSAGE(refused(predict(folder_ / "a", {folder_ / "b/1.jpg", "--labels", "path"})));
  ASSERT_EQ(predict(folder_ / "a", {folder_ / "b"}).code, 0);
  EXPECT_EQ(predicted_paths(folder_).size(), 5U);
  EXPECT_FALSE(fs::exists(folder_ / "out/images-2.csv")) << "of the prediction before";
}

TEST_F(PredictFolder, ListsOfAllEndingsAndOfWindowsAreRead) {
  copy_photographs("a", 2);
  fs::rename(folder_ / "a/1.jpg", folder_ / "a/Gr\xc3\xbcn.jpg");
  std::ofstream(folder_ / "list.tab") << "file_name\tof\na/0.jpg\tus\n";
  std::ofstream(folder_ / "list.ndjson") << "{\"file_name\": \"a/Gr\xc3\xbcn.jpg\"}\n";
  const Outcome both = succeeded(predict(folder_ / "list.tab", {folder_ / "list.ndjson"}));
  EXPECT_EQ(predicted_paths(folder_), (std::vector<std::string>{"a/0.jpg", "a/Gr\xc3\xbcn.jpg"}));
  std::ofstream(folder_ / "list.csv") << "file_name\na/0.jpg\na/Gr\xfcn.jpg\n";
  const Outcome bytes = predict(folder_ / "list.csv");
  EXPECT_NE(bytes.err.find("with --predict --set predict.read.encoding=cp1252"), std::string::npos) << bytes.err;
  const Outcome decoded = succeeded(predict(folder_ / "list.csv", {"--set", "predict.read.encoding=cp1252"}));
  EXPECT_EQ(predicted_paths(folder_), (std::vector<std::string>{"a/0.jpg", "a/Gr\xc3\xbcn.jpg"}));
}

TEST_F(PredictFolder, ShardsAndFoldersArePredictedTogether) {
  copy_photographs("photos", 3);
  const Outcome packed =
      succeeded(run_command({tool("pipeline-data"), "pack", pipeline("quickstart.toml"), "--graph", "validate", "--set",
                             "data.path=" + shapes(), "--set", "validate.read.limit=5", "--out", folder_ / "shards"}));
  const Outcome outcome = succeeded(predict(folder_ / "photos", {folder_ / "shards"}));
  EXPECT_EQ(predicted_paths(folder_).size(), 8U);
}

TEST_F(PredictFolder, AllNamesThatLeadNowhereAreNamedAtOnce) {
  copy_photographs("a", 2);
  const Outcome outcome =
      predict(folder_ / "a/0.jpg", {folder_ / "a/9.jpg", folder_ / "a", folder_ / "no/*.jpg", folder_ / "nowhere"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_MESSAGE(outcome.err);
  for (const char* name : {"a/9.jpg'", "nowhere'"}) EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(PredictFolder, LabelsOfAnotherKindAreRefused) {
  EXPECT_MESSAGE(refused(predict(shapes() + "/test", {"--labels", "column"})));
}

// Untrusted weights stay within limits, which the user's settings may exceed.
TEST_F(PredictFolder, ALargerLimitThanARecipeMaySayIsForTheUserToSay) {
  std::string bytes = read_file(trained().weights);
  const std::string usual = "max_pixels = 67108864", larger = "max_pixels = 99999999";
  ASSERT_NE(bytes.find(usual), std::string::npos);
  bytes.replace(bytes.find(usual), usual.size(), larger);
  std::ofstream(folder_ / "larger.safetensors", std::ios::binary) << bytes;
  copy_photographs("photos", 3);
  const Outcome refused = predict(folder_ / "photos", {"--weights", folder_ / "larger.safetensors"});
  EXPECT_EQ(refused.code, 3);
  const std::string say = "predict.decode_image.max_pixels=99999999";
  EXPECT_MESSAGE(refused.err);
  const Outcome said = succeeded(predict(folder_ / "photos", {"--weights", folder_ / "larger.safetensors", "--set", say}));
  EXPECT_NE(read_file(folder_ / "out/pipeline.toml").find("[predict.decode_image]"), std::string::npos);
}

TEST_F(PredictFolder, NamesEveryBrokenImage) {
  copy_photographs("photos", 20);
  constexpr int kBroken = 15;
  for (int i = 0; i < kBroken; ++i) std::ofstream(folder_ / fmt::format("photos/broken{}.jpg", i)) << "no image";
  for (const bool quiet : {false, true}) {
    const Outcome outcome =
        succeeded(predict(folder_ / "photos", quiet ? std::vector<std::string>{"--quiet"} : std::vector<std::string>{}));
    EXPECT_NE(outcome.err.find("warning: 15 images could not be used: '" + (folder_ / "out") + "/quarantine.jsonl' names them"),
              std::string::npos)
        << outcome.err;
    const std::string ledger = read_file(folder_ / "out/quarantine.jsonl");
    for (int i = 0; i < kBroken; ++i) EXPECT_NE(ledger.find(fmt::format("broken{}.jpg", i)), std::string::npos) << ledger;
    EXPECT_EQ(std::count(ledger.begin(), ledger.end(), '\n'), kBroken);
    const std::string rows = read_file(folder_ / "out/predictions.csv");
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1 + 20 + kBroken) << "a row for each, with the reason";
    EXPECT_NE(rows.find("photos/broken7.jpg,,,,,,,,,,,,decode_image: not a JPEG or PNG image: its first bytes are 6e 6f 20 69"),
              std::string::npos)
        << rows;
  }
  EXPECT_EQ(predict(folder_ / "photos", {"--set", "predict.batch.bad_sample_budget=14"}).code, 3) << "as it was asked for";
  for (int i = 0; i < kBroken; ++i) fs::remove(folder_ / fmt::format("photos/broken{}.jpg", i));
  EXPECT_EQ(predict(folder_ / "photos").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out/quarantine.jsonl")) << "of the run before";
}

TEST_F(PredictFolder, ImagesUnlikeThoseOfTheTrainingAreCountedAndNamed) {
  copy_photographs("photos", 5);
  const Outcome alike = succeeded(predict(folder_ / "photos"));
  EXPECT_EQ(alike.err.find("unlike"), std::string::npos) << alike.err;
  EXPECT_EQ(predict(folder_ / "photos", {"--strict"}).code, 0);
  const std::vector<std::uint8_t> grey(32 * 32, 128);
  std::ofstream(folder_ / "photos/grey.png", std::ios::binary) << png_bytes({grey.data(), {32, 32, 1}});
  std::ofstream(folder_ / "photos/large.png", std::ios::binary) << png_of(64, 32);
  const std::vector<std::string> exact = {"--set", "predict.decode_image.fit=exact", "--set", "network.preprocessing=mine"};
  const Outcome warned = succeeded(predict(folder_ / "photos", exact));
  for (const char* said :
       {"warning: 2 of 7 images are unlike those that the weights were trained on (256 were checked): ",
        "channels of 1, such as '", "photos/grey.png' (1, in training 3)", "photos/large.png' (64, in training 32)"})
    EXPECT_NE(warned.err.find(said), std::string::npos) << warned.err;
  fs::remove_all(folder_.path() / "out");
  EXPECT_MESSAGE(refused(predict(folder_ / "photos", {exact[0], exact[1], exact[2], exact[3], "--strict"}), 3));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(PredictFolder, NoImageThatCanBeUsedIsAnError) {
  fs::create_directories(folder_ / "photos");
  for (int i = 0; i < 12; ++i) std::ofstream(folder_ / fmt::format("photos/{}.png", i), std::ios::binary) << png_of(40, 48);
  const Outcome outcome = predict(folder_ / "photos");
  EXPECT_EQ(outcome.code, 3);
  for (const char* said : {"--predict: no image could be used: ", "out/quarantine.jsonl' names all 12; the first is '",
                           "the image is 40 x 48, but `size` alone requires 32 x 32: resize the file"})
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("predictions: "), std::string::npos) << outcome.err;
}

TEST_F(PredictFolder, AStrayShardAmongImagesIsAMistake) {
  copy_photographs("photos", 3);
  std::ofstream(folder_ / "photos/backup.tar") << "x";
  EXPECT_MESSAGE(refused(predict(folder_ / "photos")));
}

TEST_F(PredictFolder, BracesInAFoldersNameAreNoPattern) {
  copy_photographs("ph{1}", 3);
  const Outcome outcome = succeeded(predict(folder_ / "ph{1}"));
  const std::string csv = read_file(folder_ / "out/predictions.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4) << csv;
}

TEST_F(PredictFolder, AUrlIsNoFolderOfPredictions) {
  EXPECT_MESSAGE(refused(predict(shapes() + "/test", {"--out", "s3://bucket/predicted"})));
  EXPECT_FALSE(fs::exists("s3:"));
}

TEST_F(PredictFolder, NothingIsLeftBehindByAMistakeOrACheck) {
  fs::create_directories(folder_ / "empty");
  for (const std::string& data : {folder_ / "nowhere", folder_ / "empty"}) {
    const Outcome outcome = predict(data);
    EXPECT_NE(outcome.code, 0) << data;
    EXPECT_NE(outcome.err.find("--predict: [predict.read]"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("pipeline.toml"), std::string::npos) << "a file that is not there: " << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << data;
  }
  // Detected when stages are opened, the last step before a run.
  EXPECT_EQ(predict(shapes() + "/test", {"--set", "predict.write_classes.file=/proc/p.csv"}).code, 1);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_NE(predict(shapes() + "/test", {"--out", folder_ / "a/b/c", "--set", "predict.batch.sise=3"}).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  const Outcome checked = succeeded(predict(shapes() + "/test", {"--check"}));
  EXPECT_EQ(checked.out.find("--predict: no mistakes found\n"), 0U) << checked.out;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  fs::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out/pipeline.toml") << "mine";
  EXPECT_NE(predict(folder_ / "nowhere").code, 0);
  EXPECT_EQ(read_file(folder_ / "out/pipeline.toml"), "mine");
}

TEST_F(PredictFolder, WhatIsReadAndWhatIsWrittenLieApart) {
  copy_photographs("photos", 3);
  copy_photographs("out/images", 3);
  const std::string within = folder_ / "photos/sub/out";
  for (const std::string& out : {folder_ / "photos", folder_ / "photos/", within}) {
    const Outcome outcome = predict(folder_ / "photos", {"--out", out});
    EXPECT_EQ(outcome.code, 2) << out;
    EXPECT_NE(outcome.err.find(fmt::format("--out: '{}' is in '{}', whose images are read", out, folder_ / "photos")),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "photos/sub"));
  EXPECT_MESSAGE(refused(predict(folder_ / "out/images")));
  EXPECT_TRUE(fs::exists(folder_ / "out/images/2.jpg"));
}

TEST_F(PredictFolder, FilesThatItDidNotWriteAreNotReplaced) {
  copy_photographs("photos", 3);
  for (const char* name : {"pipeline.toml", "network.toml", "predictions.csv", "masks/1.png"}) {
    fs::remove_all(folder_.path() / "out");
    const fs::path file = folder_.path() / "out" / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "mine";
    const Outcome outcome = predict(folder_ / "photos");
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_NE(outcome.err.find("' is not of an earlier --predict, which would replace it"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_file(file), "mine");
  }
  EXPECT_MESSAGE(refused(predict(folder_ / "photos", {"--out", folder_ / "out/masks/1.png"})));
}

TEST_F(PredictFolder, NothingIsRemovedThatALinkLeadsTo) {
  copy_photographs("photos", 3);
  ASSERT_EQ(predict(folder_ / "photos").code, 0);
  fs::create_directory(folder_ / "mine");
  std::ofstream(folder_ / "mine/precious.png") << "mine";
  fs::create_directory_symlink(folder_ / "mine", folder_ / "out/images");
  EXPECT_MESSAGE(refused(predict(folder_ / "photos")));
  EXPECT_EQ(read_file(folder_ / "mine/precious.png"), "mine");
}

TEST_F(PredictFolder, AFileOrAFolderThatSetNamesLiesInTheFolderOfPredictions) {
  copy_photographs("photos", 3);
  const Outcome named = succeeded(predict(folder_ / "photos", {"--set", "predict.write_classes.file=x.jsonl"}));
  EXPECT_EQ(read_file(folder_ / "out/x.jsonl").find("{\"path\":"), 0U);
  EXPECT_EQ(read_file(folder_ / "out/pipeline.toml").find("# Made by"), 0U) << "still what says what was run";
  EXPECT_FALSE(fs::exists(folder_ / "out/predictions.csv"));
  const Outcome lines = succeeded(predict(folder_ / "photos", {"--set", "predict.write_classes.format=jsonl"}));
  EXPECT_EQ(read_file(folder_ / "out/predictions.jsonl").find("{\"path\":"), 0U);
  EXPECT_FALSE(fs::exists(folder_ / "out/predictions.csv"));
  ASSERT_EQ(predict(folder_ / "photos").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out/predictions.jsonl")) << "as what an earlier prediction left";
  EXPECT_TRUE(fs::exists(folder_ / "out/x.jsonl"));
}

TEST_F(PredictFolder, NothingStaysOfAnEarlierEvaluation) {
  ASSERT_EQ(predict(shapes() + "/test", {"--labels", "path"}).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/evaluation/confusion.svg"));
  ASSERT_EQ(predict(shapes() + "/test").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out/evaluation"));
}

TEST_F(PredictFolder, WhatAnEarlierPredictionLeftIsRemoved) {
  copy_photographs("photos", 3);
  ASSERT_EQ(predict(folder_ / "photos").code, 0);
  const fs::path out = folder_.path() / "out";
  for (const char* name : {"pipeline", "network"}) {
    fs::copy(out / fmt::format("{}.toml", name), out / fmt::format("{}-20x30.toml", name));
  }
  for (const char* folder : {"evaluation", "masks/a"}) fs::create_directories(out / folder);
  const std::vector<std::string> old = {"quarantine.jsonl", "predictions.csv.new-999999999", "evaluation/figures.csv",
                                        "masks/a/1.png"};
  const std::vector<std::string> own = {"notes.txt", "network-mine.toml", "masks/notes.txt"};
  for (const auto* names : {&old, &own}) {
    for (const std::string& name : *names) std::ofstream(out / name) << "x";
  }
  const Outcome outcome = succeeded(predict(folder_ / "photos"));
  for (const std::string& name : old) EXPECT_FALSE(fs::exists(out / name)) << name;
  for (const char* name : {"pipeline-20x30.toml", "network-20x30.toml", "evaluation", "masks/a"})
    EXPECT_FALSE(fs::exists(out / name)) << name;
  for (const std::string& name : own) EXPECT_TRUE(fs::exists(out / name)) << name;
  for (const char* name : {"pipeline.toml", "network.toml", "predictions.csv"}) EXPECT_TRUE(fs::exists(out / name)) << name;
  std::ofstream(out / "network.toml") << "mine";
  EXPECT_EQ(predict(folder_ / "photos").code, 2);
  EXPECT_EQ(read_file(out / "network.toml"), "mine");
}

}  // namespace
}  // namespace millrace::test::predict_option_test
