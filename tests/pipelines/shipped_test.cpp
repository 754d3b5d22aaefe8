// The shipped pipelines of segmentation and restoration on four drawn images.
#include <gtest/gtest.h>

#include "command.h"
#include "pairs_fixture.h"

namespace millrace::test::shipped_test {
namespace {

// Keys of --set that make a pipeline small.
struct Shipped {
  std::string name;
  std::vector<std::string> small;
};

class ShippedPipelines : public testing::Test {
 protected:
  // CamVid's folders, with all 11 classes and the ignored one.
  ShippedPipelines() {
    draw_pairs(folder_ / "train", 4, 64, 96, 12);
    draw_pairs(folder_ / "val", 4, 64, 96, 12, 4);
  }
  Outcome run(const std::string& name, const std::vector<std::string>& set, const std::vector<std::string>& options) const {
    const std::string images = folder_ / "val/images";
    std::vector<std::string> words = {tool("pipeline-run"), pipeline(name + ".toml"), "--devices", "cpu"};
    const auto add = [&](const std::string& key) { words.insert(words.end(), {"--set", key}); };
    for (const char* key : {"train.batch.size=2", "run.epochs=1", "run.precision=fp32"}) add(key);
    add("run.folder=" + (folder_ / "runs"));
    if (name == "denoise") {
      add("data.train=" + (folder_ / "train/images"));
      add("data.validate=" + images);
    } else {
      add("data.path=" + folder_.path().string());
    }
    if (name.ends_with("camvid")) add("data.photos=" + images);
    for (const std::string& key : set) add(key);
    words.insert(words.end(), options.begin(), options.end());
    return run_command(words);
  }

  TemporaryFolder folder_;
};

TEST_F(ShippedPipelines, AreInOrderGraphByGraph) {
  for (const char* name :
       {"segnet_camvid", "segnet_basic_camvid", "unet_camvid", "deeplab_camvid", "denoise", "super_resolution"}) {
    std::vector<std::string> graphs = {"", "evaluate"};  // "": the run, which validates
    if (std::string(name).ends_with("camvid")) graphs.emplace_back("predict");
    for (const std::string& graph : graphs) {
      SCOPED_TRACE(fmt::format("{} {}", name, graph));
      std::vector<std::string> options = {"--check"};
      if (!graph.empty()) options.insert(options.end(), {"--graph", graph});
      const Outcome check = succeeded(run(name, {}, options));
      EXPECT_EQ(check.err, "");
      EXPECT_NE(check.out.find(graph.empty() ? "[train]" : "[" + graph + "]"), std::string::npos) << check.out;
      EXPECT_TRUE(!graph.empty() || check.out.find("[validate]") != std::string::npos) << check.out;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs")) << "a check makes nothing";
}

// Unchanged except sizes: two steps, the validation after them, and the metric of the best weights.
TEST_F(ShippedPipelines, SmallOnesTrainTwoStepsAndValidate) {
  const std::vector<Shipped> small = {{"unet_camvid", {"image.height=28", "image.width=48"}},
                                      {"segnet_basic_camvid", {"image.height=20", "image.width=32"}},
                                      {"denoise", {"network.depth=4"}},
                                      {"super_resolution", {}}};
  for (const auto& [name, set] : small) {
    SCOPED_TRACE(name);
    const Outcome outcome = succeeded(run(name, set, {"--json", "--quiet"}));
    EXPECT_EQ(events(outcome, "step").size(), 2U);
    const auto passes = events(outcome, "validate");
    ASSERT_EQ(passes.size(), 1U);
    EXPECT_EQ(passes[0].at("samples"), 4);
    EXPECT_GT(passes[0].at(name.ends_with("camvid") ? "mean_iou" : "psnr").get<double>(), 0);
    const std::string weights = find_file(folder_.path() / "runs" / name, "weights.safetensors");
    ASSERT_FALSE(weights.empty());
    EXPECT_FALSE(find_file(folder_.path() / "runs" / name, "best.safetensors").empty());
    std::vector<std::string> measured = set;
    measured.push_back("run.folder=" + (folder_ / "measured"));
    const Outcome evaluated = succeeded(run(name, measured, {"--graph", "evaluate", "--weights", weights}));
    EXPECT_FALSE(find_file(folder_.path() / "measured" / name, "figures.csv").empty()) << evaluated.err;
  }
}

}  // namespace
}  // namespace millrace::test::shipped_test
