// Predictions on a disk that takes no more: files are whole or not there, and what failed is named.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>

#include "pipelines/command.h"
#include "pipelines/pairs_fixture.h"
#include "replay_log.h"

namespace millrace::test::prediction_faults_test {
namespace {

namespace fs = std::filesystem;

// What a prediction writes: keys of --set, beside the file of weights.
struct Written {
  std::string weights, images;
  std::vector<std::string> set;
};

using Bytes = std::map<std::string, std::string>;  // of files, by their names in a folder

// A pipeline's file that is read back: what cannot be read is no matter of predictions.
bool reads(const LoggedCall& call) {
  return call.call == "open" && (call.flags & (O_WRONLY | O_RDWR | O_CREAT | O_DIRECTORY)) == 0;
}

class PredictionFaults : public testing::Test {
 protected:
  // A dozen images in folders of classes, and weights of a linear layer over them.
  std::string train_classes() const {
    std::ofstream(folder_ / "network.toml") << "input  = { channels = 3, height = 32, width = 32 }\n"
                                            << "layers = [{ op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", "
                                            << "out = \"${classes}\" }]\n";
    std::ofstream(folder_ / "c.toml") << "extends = \"" << pipeline("quickstart.toml")
                                      << "\"\n[run]\nepochs = 1\nprecision = \"fp32\"\nfolder = \"" << folder_ / "runs"
                                      << "\"\n[network]\nuse = \"network.toml\"\n[data]\npath = \"" << shapes() << "\"\n";
    const Outcome trained = run_command({tool("pipeline-run"), folder_ / "c.toml", "--quiet"});
    EXPECT_EQ(trained.code, 0) << trained.err;
    for (const auto& entry : fs::directory_iterator(shapes() + "/test")) {
      const fs::path to = folder_.path() / "photos" / entry.path().filename();
      fs::create_directories(to);
      fs::copy_file(entry.path() / "00000.jpg", to / "00000.jpg");
    }
    return find_file(folder_.path() / "runs", "weights.safetensors");
  }
  std::string flow_with(const std::string& sink) const {
    return R"(predict.flow=["read", "decode_image", "batch", "forward", "write_classes", ")" + sink + "\"]";
  }
  std::string out() const { return fs::canonical(folder_.path()).string() + "/out"; }
  std::string out_key(const std::string& key, const std::string& name) const {
    return fmt::format("predict.{}={}/{}", key, out(), name);
  }
  Outcome predict(const Written& written, const std::vector<std::string>& faults) const {
    fs::remove_all(folder_.path() / "out");
    fs::remove(folder_.path() / "log");
    std::vector<std::string> words = {"/usr/bin/env", fmt::format("LD_PRELOAD={}", FAULT_FILES),
                                      fmt::format("FAULT_FILES_FOLDER={}", out())};
    words.insert(words.end(), faults.begin(), faults.end());
    words.insert(words.end(), {tool("pipeline-run"), "--predict", written.images, "--weights", written.weights, "--out", out(),
                               "--devices", "cpu"});
    for (const std::string& key : written.set) words.insert(words.end(), {"--set", key});
    return run_command(words);
  }
  Bytes left() const {
    Bytes bytes;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "out", ignored)) {
      if (entry.is_regular_file()) bytes[fs::relative(entry.path(), folder_.path() / "out").string()] = read_file(entry.path());
    }
    return bytes;
  }
  // What a run under faults may leave of the files of a whole one.
  void expect_whole_files(const Outcome& outcome, const Bytes& whole, const std::string& error) const {
    const Bytes here = left();
    for (const auto& [name, bytes] : here) {
      ASSERT_TRUE(whole.contains(name)) << name << " is left behind: " << outcome.err;
      EXPECT_TRUE(bytes == whole.at(name)) << name << " is not whole: " << outcome.err;
    }
    if (outcome.code == 0) {
      EXPECT_EQ(here.size(), whole.size()) << outcome.err;
      return;
    }
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("/out"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(error), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("predictions: "), std::string::npos) << "it says that all is there: " << outcome.err;
  }
  // MILLRACE_FAULTS=all: each call with each error. Else a few calls, spread over all.
  void fail_calls(const Written& written, const std::vector<std::string>& files) const {
    const Outcome good = predict(written, {fmt::format("FAULT_FILES_LOG={}", folder_ / "log")});
    ASSERT_EQ(good.code, 0) << good.err;
    const Bytes whole = left();
    for (const std::string& file : files) ASSERT_TRUE(whole.contains(file)) << file;
    const std::vector<LoggedCall> calls = read_log(folder_ / "log");
    const std::uint64_t end = calls.back().number;
    const char* const wanted = std::getenv("MILLRACE_FAULTS");
    const std::uint64_t stride = wanted != nullptr && std::string(wanted) == "all" ? 1 : end / 5;
    int failed = 0;
    std::uint64_t shift = 0;
    for (const auto& [name, text, range] : std::vector<std::array<std::string, 3>>{{"ENOSPC", "No space left on device", ""},
                                                                                   {"EIO", "Input/output error", ""},
                                                                                   {"ENOSPC", "No space left on device", "-"}}) {
      for (std::uint64_t call = 1 + shift % stride; call <= end; call += stride) {
        if (reads(calls.at(call - 1))) continue;
        SCOPED_TRACE(fmt::format("{} at call {}{} of {}", name, call, range, end));
        const Outcome outcome =
            predict(written, {fmt::format("FAULT_FILES_AT={}{}", call, range), fmt::format("FAULT_FILES_DO={}", name)});
        expect_whole_files(outcome, whole, text);
        failed += outcome.code == 0 ? 0 : 1;
      }
      shift += 2;
    }
    EXPECT_GT(failed, 3) << "a fault that nothing meets says nothing";
  }

  const TemporaryFolder folder_;
};

TEST_F(PredictionFaults, ClassesAreWholeOrNotThere) {
  fail_calls({train_classes(), folder_ / "photos", {}}, {"predictions.csv"});
}

TEST_F(PredictionFaults, FeaturesAreWholeOrNotThere) {
  fail_calls(
      {train_classes(),
       folder_ / "photos",
       {flow_with("write_features"), "predict.write_features.layer=fc", out_key("write_features.file", "features.safetensors")}},
      {"features.safetensors", "features.csv"});
}

TEST_F(PredictionFaults, AnEvaluationsFilesAreWholeOrNotThere) {
  fail_calls({train_classes(),
              folder_ / "photos",
              {flow_with("write_evaluation"), "predict.read.labels=path", out_key("write_evaluation.folder", "evaluation")}},
             {"evaluation/figures.csv", "evaluation/confusion.csv", "evaluation/confusion.png", "evaluation/mistakes.png"});
}

TEST_F(PredictionFaults, MasksAreWholeOrNotThere) {
  const std::string folder = folder_.path();
  fail_calls({train_maps(folder), folder + "/images", {}}, {"masks/0.png", "masks/3.png"});
}

}  // namespace
}  // namespace millrace::test::prediction_faults_test
