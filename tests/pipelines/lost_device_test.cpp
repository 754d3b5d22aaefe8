// A GPU that is lost at any call, or with any piece of work: the run ends with its name, and nothing is written that was not
// computed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "command.h"
#include "running_program.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNetwork = R"(input  = { channels = 3, height = 16, width = 16 }
layers = [ { op = "conv", out = 4, kernel = 3, stride = 2 }, { op = "relu" }, { op = "global_average_pool" },
           { op = "linear", out = "${classes}" } ]
)";

constexpr const char* kWhole = "SIMULATED_GPU_FAIL=0";  // it is not lost

// Numbers of drawn images: 2 epochs of 4 steps, each with a validation that write_regression writes down.
class LostDeviceTest : public testing::Test {
 protected:
  LostDeviceTest() {
    std::ofstream(folder_ / "network.toml") << kNetwork;
    std::ofstream list(folder_ / "list.csv");
    list << "file_name,size,split\n";
    int number = 0;
    for (const char* part : {"train", "test"}) {
      for (const auto& shape : fs::directory_iterator(shapes() + "/" + part)) {
        const fs::path from = shape.path() / "00000.jpg";
        list << from.string() << ',' << number++ % 7 << ',' << (part[1] == 'r' ? "train" : "val") << '\n';
      }
    }
  }

  void SetUp() override {
    if (!fs::exists(plugins() / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
  }
  static fs::path plugins() { return fs::path(MILLRACE_BINARY_DIR) / "tests/simulated"; }

  Outcome on_lost_device(const std::string& fault, const Words& arguments) const {
    return run_command(
        with(with({"/usr/bin/env", "MILLRACE_PLUGIN_PATH=" + plugins().string(), fault, tool("pipeline-run")}, {}, arguments), {},
             {"--devices", "simulated:0"}));
  }
  Outcome train(const std::string& fault, int epochs = 2) const {
    fs::remove_all(folder_.path() / "runs");
    return on_lost_device(
        fault, with({pipeline("recipes/regress.toml"), "--json"},
                    {"data.path=" + (folder_ / "list.csv"), R"(data.columns=["size"])", "run.folder=" + (folder_ / "runs"),
                     "network.use=" + (folder_ / "network.toml"), fmt::format("run.epochs={}", epochs), "image.side=16",
                     "train.batch.size=4", "validate.batch.size=4", "run.precision=fp32", "train.optimizer.learning_rate=0.01",
                     "checkpoint.every=1 epoch"}));
  }
  std::string written(const std::string& name) const {
    if (!fs::exists(folder_.path() / "runs")) return {};  // it was lost before the run had a folder
    const fs::path file = find_file(folder_.path() / "runs", name);
    return file.empty() ? std::string() : read_file(file);
  }

  // Losses and errors by graph, epoch and step, as the run has reported them.
  static std::set<std::string> reported(const Outcome& outcome) {
    std::set<std::string> texts;
    for (const char* event : {"step", "validate"}) {
      for (const nlohmann::json& each : events(outcome, event)) {
        std::string text = event;
        for (const char* key : {"epoch", "step", "loss", "rmse", "mae", "r2"})
          if (each.contains(key)) text += fmt::format(" {}={}", key, each.at(key).dump());
        texts.insert(std::move(text));
      }
    }
    return texts;
  }

  // Loses the device ever later, until what is started is over before it. `check`: of each that the device was lost to.
  static void sweep(const char* variable, const std::function<Outcome(const std::string& fault)>& start,
                    const std::function<void(const Outcome&)>& check) {
    const std::string unit = std::string(variable).ends_with("CALL") ? "call" : "work";
    std::uint64_t lost = 0, whole = 0;
    const auto try_at = [&](std::uint64_t number) {
      SCOPED_TRACE(fmt::format("{} {}", unit, number));
      const Outcome outcome = start(fmt::format("{}={}", variable, number));
      if (outcome.code == 0) {
        whole = number;
        return;
      }
      lost = number;
      EXPECT_EQ(outcome.code, 4) << outcome.err;
      EXPECT_NE(outcome.err.find(fmt::format("({} {}) failed", unit, number)), std::string::npos) << outcome.err;
      check(outcome);
    };
    for (std::uint64_t number = 1; whole == 0 && number < 1'000'000 && !HasFailure(); number = number * 3 / 2 + 1) try_at(number);
    for (int i = 0; i < 6 && whole - lost > 1 && !HasFailure(); ++i) try_at((lost + whole) / 2);  // and in its last pass
    EXPECT_GT(lost, 100U) << "it was not lost in the middle";
  }

  const TemporaryFolder folder_;
};

TEST_F(LostDeviceTest, ATrainingReportsAndWritesNothingThatWasNotComputed) {
  std::set<std::string> tables = {""};  // of numbers: none, and those after each epoch
  std::set<std::string> whole;
  for (const int epochs : {1, 2}) {
    const Outcome outcome = succeeded(train(kWhole, epochs));
    tables.insert(written("numbers.csv"));
    whole = reported(outcome);
  }
  ASSERT_EQ(tables.size(), 3U);
  ASSERT_EQ(whole.size(), 10U) << testing::PrintToString(whole);
  for (const char* variable : {"SIMULATED_GPU_FAIL_CALL", "SIMULATED_GPU_FAIL"}) {
    sweep(
        variable, [&](const std::string& fault) { return train(fault); },
        [&](const Outcome& lost) {
          EXPECT_TRUE(tables.contains(written("numbers.csv"))) << written("numbers.csv");
          for (const std::string& text : reported(lost)) EXPECT_TRUE(whole.contains(text)) << text;
          EXPECT_EQ(written("weights.safetensors"), "") << "they are of a run that has ended well";
        });
  }
}

TEST_F(LostDeviceTest, PredictionsThatAreKeptWereComputed) {
  const Outcome trained = succeeded(train(kWhole));
  const std::string weights = find_file(folder_.path() / "runs", "weights.safetensors").string(), out = folder_ / "found";
  const auto predict = [&](const std::string& fault) {
    fs::remove_all(out);
    fs::create_directories(out);
    return on_lost_device(fault, {"--predict", shapes() + "/test", "--weights", weights, "--out", out});
  };
  const Outcome whole = succeeded(predict(kWhole));
  const std::string rows = read_file(find_file(out, "features.csv"));
  ASSERT_FALSE(rows.empty()) << whole.err;
  bool some_were_kept = false;
  for (const char* variable : {"SIMULATED_GPU_FAIL_CALL", "SIMULATED_GPU_FAIL"}) {
    sweep(variable, predict, [&](const Outcome& lost) {
      for (const auto& entry : fs::recursive_directory_iterator(out)) {
        const std::string name = entry.path().filename().string();
        EXPECT_TRUE(entry.is_directory() || name.ends_with(".toml") || name.find(".new-") != std::string::npos) << name;
        if (!name.starts_with("features.csv.new-")) continue;
        EXPECT_TRUE(rows.starts_with(read_file(entry.path()))) << "rows were kept that were not computed";
        EXPECT_NE(lost.err.find(" is incomplete: "), std::string::npos) << lost.err;
        some_were_kept = true;
      }
    });
  }
  EXPECT_TRUE(some_were_kept);
}

}  // namespace
}  // namespace millrace::test
