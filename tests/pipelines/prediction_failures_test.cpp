// `--predict` over unreadable images.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "command.h"
#include "pairs_fixture.h"
#include "testkit/messages.h"

namespace millrace::test::prediction_failures_test {
namespace {

namespace fs = std::filesystem;

class PredictionFailures : public testing::Test {
 protected:
  PredictionFailures() : weights_(train_maps(folder_.path())) { fs::copy(folder_ / "images", folder_ / "photos"); }

  Outcome predict(const std::string& out, std::vector<std::string> words = {}, const std::vector<std::string>& more = {},
                  const Interruption& interruption = {}) const {
    words.insert(words.end(), {tool("pipeline-run"), "--predict", folder_ / "photos", "--weights", weights_, "--out",
                               folder_ / out, "--devices", "cpu"});
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words, interruption);
  }
  // By file name.
  std::map<std::string, std::string> masks(const std::string& out) const {
    std::map<std::string, std::string> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_.path() / out / "masks", ignored))
      found[entry.path().filename()] = read_file(entry.path());
    return found;
  }

  TemporaryFolder folder_;
  std::string weights_;
};

TEST_F(PredictionFailures, LabelsOfPixelsAreAFolderBesideAFolder) {
  EXPECT_MESSAGE(refused(predict("out", {}, {"--labels", "path"})));
  std::ofstream(folder_ / "list.csv") << "file_name\nimages/0.png\n";
  EXPECT_MESSAGE(refused(predict("out", {}, {"--predict", folder_ / "list.csv", "--labels", folder_ / "labels"})));
}

TEST_F(PredictionFailures, AFileWithoutPermissionIsNamedAndTheOthersHaveTheirMasks) {
  const std::vector<std::string> words = without_privileges();
  if (words.empty()) GTEST_SKIP() << "root may read everything, and there is no setpriv";
  fs::permissions(folder_ / "photos/1.png", fs::perms::none);
  const Outcome outcome = predict("out", words);
  EXPECT_NE(outcome.err.find(fmt::format("'{}': Permission denied", folder_ / "photos/1.png")), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(masks("out").size(), 3U);
}

TEST_F(PredictionFailures, AnInterruptedRunSaysWhatIsMissing) {
  for (int i = 4; i < 16; ++i) fs::copy(folder_ / "photos/0.png", folder_ / fmt::format("photos/{}.png", i));
  Interruption interruption;
  interruption.once = [this] { return !masks("out").empty(); };
  const Outcome outcome =
      predict("out", {"/usr/bin/env", "MILLRACE_PLUGIN_PATH=" MILLRACE_BINARY_DIR "/tests/slow_sink"},
              {"--set", "predict.batch.size=1", "--set", "predict.slow_sink.milliseconds=400", "--set",
               R"(predict.flow=["read", "decode_image", "pad", "batch", "forward", "slow_sink", "write_masks"])"},
              interruption);
  EXPECT_EQ(outcome.code, 128 + SIGINT) << outcome.err;
  EXPECT_LT(masks("out").size(), 16U);
  for (const std::string& said :
       {fmt::format("out/masks' is incomplete: {} pictures of 16 images were written", masks("out").size()),
        fmt::format("interrupted: the predictions in '{}' are not complete", folder_ / "out")})
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("\npredictions: "), std::string::npos) << outcome.err;
}

TEST_F(PredictionFailures, AFolderWithoutPermissionIsNamedAndNothingIsPredicted) {
  const std::vector<std::string> words = without_privileges();
  if (words.empty()) GTEST_SKIP() << "root may read everything, and there is no setpriv";
  fs::create_directories(folder_ / "photos/sub");
  fs::permissions(folder_ / "photos/sub", fs::perms::none);
  const Outcome outcome = predict("out", words);
  fs::permissions(folder_ / "photos/sub", fs::perms::owner_all);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_MESSAGE(outcome.err);
  EXPECT_TRUE(masks("out").empty());
}

}  // namespace
}  // namespace millrace::test::prediction_failures_test
