// Base files that train from annotations instead of folders, lists and masks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "command.h"

namespace millrace::test::annotations_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Annotations : public testing::Test {
 protected:
  // 24 drawn images in FOLDER/PART; a COCO file names a box in each, whose class is "left" or "right" in turn.
  void draw(const Words& parts) {
    std::string images, annotations;
    int id = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(shapes()) / "train")) {
      if (!entry.is_regular_file() || id >= 24) continue;
      const std::string part = parts[static_cast<std::size_t>(id) % parts.size()];
      const std::string name = fmt::format("{}{}{}", id, part.empty() ? "" : part, entry.path().extension().string());
      fs::create_directories(folder_ / ("images/" + part));
      fs::copy_file(entry.path(), folder_ / ("images/" + part + "/" + name));
      const int side = id / 2 % 2;
      images += fmt::format(R"({}{{"id": {}, "file_name": "{}"}})", id == 0 ? "" : ",\n", id, name);
      annotations += fmt::format(R"({}{{"image_id": {}, "category_id": {}, "bbox": [{}, 4, 10, 20]}})", id == 0 ? "" : ",\n", id,
                                 side, 4 + 12 * side);
      ++id;
    }
    std::ofstream(folder_ / "boxes.json") << fmt::format(
        R"({{"images": [{}], "annotations": [{}], "categories": [{{"id": 0, "name": "left"}}, {{"id": 1, "name": "right"}}]}})",
        images, annotations);
  }
  Outcome run(const std::string& file, const Words& set) const {
    Words words = {tool("pipeline-run"), file, "--json", "--quiet", "--devices", "cpu"};
    const auto add = [&](const std::string& each) { words.insert(words.end(), {"--set", each}); };
    for (const char* each : {"run.epochs=1", "run.precision=fp32", "train.batch.size=4"}) add(each);
    add("run.folder=" + (folder_ / "runs"));
    add("data.path=" + (folder_ / "images"));
    add("data.annotations=" + (folder_ / "boxes.json"));
    for (const std::string& each : set) add(each);
    return run_command(words);
  }
  // The pipeline as the run has kept it.
  std::string trained(const Outcome& outcome, double validated) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(events(outcome, "validate").size(), 1U);
    for (const auto& event : events(outcome, "validate")) EXPECT_EQ(event.at("samples"), validated);
    return read_file(find_file(folder_ / "runs", "pipeline.toml"));
  }

  TemporaryFolder folder_;
};

TEST_F(Annotations, BecomeLabelMaps) {
  draw({""});
  const std::string kept =
      trained(run("segment", {"data.held_out=0.25", "image.height=32", "image.width=32", "network.filters=4"}), 6);
  EXPECT_NE(kept.find("target = \"map\""), std::string::npos) << kept;
  EXPECT_NE(kept.find("classes = 3"), std::string::npos) << "with the background: " << kept;
}

TEST_F(Annotations, BecomeClassesOfImagesInFoldersOfParts) {
  draw({"train", "val", "train"});
  const std::string kept = trained(run("classify", {"network.use=quickstart", "image.side=32", "image.short=40"}), 8);
  EXPECT_NE(kept.find("folder = \"train\""), std::string::npos) << kept;
  EXPECT_NE(kept.find("folder = \"val\""), std::string::npos) << kept;
}

TEST_F(Annotations, BecomeLabelsAndCounts) {
  draw({""});
  for (const auto& [file, target] : {std::pair("labels", "labels"), std::pair("regress", "counts")}) {
    fs::remove_all(folder_ / "runs");
    const std::string kept = trained(
        run(file, {"network.use=quickstart", "image.side=32", "data.columns=[\"left\", \"right\"]", "data.held_out=0.25"}), 6);
    EXPECT_NE(kept.find(fmt::format("target = \"{}\"", target)), std::string::npos) << kept;
  }
}

TEST_F(Annotations, AreRefusedByWhatTheyLack) {
  draw({""});
  const auto said = [&](const Words& set) { return run("classify", set).err; };
  std::string text = said({"data.holds=images"});
  EXPECT_NE(text.find("'annotations' has no effect: the targets are images"), std::string::npos) << text;
  text = said({"data.annotations={ train = \"a.json\" }"});
  EXPECT_NE(text.find("'annotations' must be a file or folder"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace::test::annotations_test
