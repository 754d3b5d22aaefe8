// In the steady state of predictions, no memory is allocated per sample, from reading its file to writing its row.
#include <gtest/gtest.h>

#include <algorithm>

#include "config/plan.h"
#include "counting.h"
#include "millrace/batch.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "pipelines/command.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "testkit/files.h"
#include "weights/weights.h"

namespace millrace::test {
namespace {

constexpr std::uint64_t kWarmStep = 20, kEndStep = 60;

// Records the counts when the predictions of two steps are written.
class CountingSink : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("counting_sink").text("Counts.").input(payload::kPredictions).serial();
  }
  CountingSink(const Params&, const StageSite&) {}
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }

  static inline Counts warm, end;

 private:
  PredictionLine line_{[](const Predictions& share) {
    if (share.step == kWarmStep) warm = counts();
    if (share.step == kEndStep) end = counts();
  }};
};

class Predicting : public testing::Test {
 protected:
  Predicting() {
    load_all_plugins(registry_);
    registry_.add_stage<CountingSink>();
    folder_.write(
        "tiny.toml",
        "input = { channels = 3, height = 32, width = 32 }\n"
        "layers = [ { name = \"average\", op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", out = 10 } ]\n");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(shapes() + "/test")) {
      if (entry.is_regular_file()) images_.push_back(entry.path().string());
    }
  }

  // Allocations per step, between the two.
  double allocations(const std::string& sink, const std::string& table, std::size_t batch) {
    std::string list = "file_name\n";
    for (std::size_t i = 0; i < batch * (kEndStep + 1); ++i) list += images_[i % images_.size()] + "\n";
    const std::string file = folder_.write(
        "p.toml", "[run]\nfolder = \"" + (folder_.path() / "runs").string() +
                      "\"\n[network]\nuse = \"tiny.toml\"\n[predict]\nflow = [\"read_list\", \"decode_image\", \"batch\", "
                      "\"forward\", \"" +
                      sink + "\", \"counting_sink\"]\nread_list.path = \"" + folder_.write("list.csv", list) +
                      "\"\nread_list.labels = \"none\"\ndecode_image.size = 32\nbatch.size = " + std::to_string(batch) + "\n" +
                      table);
    const Pipeline pipeline = load_pipeline(file, {}, registry_);
    Weights weights;
    for (const Parameter& parameter : pipeline.network->parameters) weights.push_back(initial_values(parameter, 1));
    RunOptions options;
    options.weights = (folder_.path() / "w.safetensors").string();
    const auto fetch = [&weights](int parameter) { return weights[static_cast<std::size_t>(parameter)]; };
    WeightsFile(*pipeline.network, fetch, {}).write(options.weights);
    run_once(*prepare(pipeline, registry_, options));
    return static_cast<double>(CountingSink::end.allocations - CountingSink::warm.allocations) /
           static_cast<double>(kEndStep - kWarmStep);
  }

  testkit::TestFolder folder_;
  Registry registry_;
  std::vector<std::string> images_;
};

TEST_F(Predicting, AllocatesNothingForASample) {
  leave_out("libjpeg");
  for (const auto& [sink, table] :
       {std::pair{"write_classes", ""}, std::pair{"write_classes", "write_classes.file = \"p.jsonl\"\n"},
        std::pair{"write_features", "write_features.layer = \"average\"\n"}}) {
    const double small = allocations(sink, table, 50);
    double large = allocations(sink, table, 200);
    // Progress reports on a slow machine only add allocations to a run.
    for (int again = 0; again < 2 && large >= small + 15; ++again) large = std::min(large, allocations(sink, table, 200));
    std::printf("%s %s: a batch of 50: %.1f allocations; of 200: %.1f\n", sink, table, small, large);
    EXPECT_LT(large, small + 15) << sink << ": a tenth of one for each sample";
  }
}

}  // namespace
}  // namespace millrace::test
