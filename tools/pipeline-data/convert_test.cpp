#include "convert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "millrace/util/load_plugins.h"
#include "testkit/files.h"

namespace millrace {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() {
    for (const char* plugin : {"storage_file", "annotations"})
      load_plugin(registry_, fmt::format(MILLRACE_PLUGINS "/{}.so", plugin));
  }
  Converted convert(const std::string& from, const std::string& to, const std::string& out, const std::string& images = "") {
    return millrace::convert(registry_, {folder_ / from, images.empty() ? "" : folder_ / images, to, folder_ / out});
  }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  void image(const std::string& name) {  // 8 x 4
    folder_.write("images/" + name, std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x04", 24));
  }

  testkit::TestFolder folder_;
  Registry registry_;
};

const char* const kCoco = R"({"images": [
{"id": 1, "file_name": "a.png", "width": 8, "height": 4},
{"id": 2, "file_name": "day/b.png", "width": 8, "height": 4}],
"categories": [
{"id": 1, "name": "cat"},
{"id": 2, "name": "big \"dog\""}],
"annotations": [
{"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "bbox": [1, 1, 2, 2], "area": 4, "segmentation": []},
{"id": 2, "image_id": 1, "category_id": 2, "iscrowd": 1, "bbox": [0, 0, 4, 4], "area": 8, "segmentation": [[0, 0, 4, 0, 0, 4]]}]}
)";

TEST_F(Convert, WritesCocoAsItReadsIt) {
  folder_.write("coco.json", kCoco);
  const Converted converted = convert("coco.json", "coco", "again.json");
  EXPECT_EQ(text("again.json"), kCoco);
  EXPECT_EQ(converted.images, 2U);
  EXPECT_EQ(converted.shapes, 2U);
  EXPECT_EQ(converted.classes, 2U);
}

TEST_F(Convert, WritesYoloWithoutCrowds) {
  folder_.write("coco.json", kCoco);
  EXPECT_NE(convert("coco.json", "yolo", "set").warning.find("1 crowd or ignored shape, 'a.png'"), std::string::npos);
  EXPECT_EQ(text("set/labels/a.txt"), "0 0.25 0.5 0.25 0.5\n");
  EXPECT_EQ(text("set/labels/day/b.txt"), "");
  EXPECT_NE(text("set/data.yaml").find("names:\n  0: \"cat\"\n  1: \"big \\\"dog\\\"\"\n"), std::string::npos)
      << text("set/data.yaml");
}

TEST_F(Convert, ReadsSizesFromImages) {
  folder_.write("set/data.yaml", "names: [cat, dog]\n");
  folder_.write("set/labels/a.txt", "1 0.25 0.5 0.25 0.5\n0 0 0 0.5 0 0 1\n");
  const Error error = testkit::error_of([&] { convert("set", "coco", "coco.json"); });
  EXPECT_NE(std::string(error.what()).find("the size of 'images/a' is not stated: --images"), std::string::npos) << error.what();
  image("a.png");
  image("b.png");
  EXPECT_EQ(convert("set", "coco", "coco.json", "images").images, 2U);
  const std::string coco = text("coco.json");
  EXPECT_NE(coco.find(R"("file_name": "b.png", "width": 8, "height": 4)"), std::string::npos)
      << "an image without a file has no shapes: " << coco;
  EXPECT_NE(coco.find(R"("category_id": 2, "iscrowd": 0, "bbox": [1, 1, 2, 2], "area": 4, "segmentation": [])"),
            std::string::npos)
      << coco;
  EXPECT_NE(coco.find(R"("bbox": [0, 0, 4, 4], "area": 8, "segmentation": [[0, 0, 4, 0, 0, 4]])"), std::string::npos) << coco;
}

TEST_F(Convert, KeepsMasksInCocoAndRefusesThemInYolo) {
  folder_.write(
      "coco.json",
      R"({"images": [{"id": 1, "file_name": "a.png", "width": 8, "height": 4}], "categories": [{"id": 1, "name": "cat"}],
      "annotations": [{"image_id": 1, "category_id": 1, "segmentation": {"size": [4, 8], "counts": [5, 2, 2, 1, 22]}}]})");
  convert("coco.json", "coco", "again.json");
  EXPECT_NE(
      text("again.json").find(R"("bbox": [1, 1, 2, 2], "area": 3, "segmentation": {"size": [4, 8], "counts": [5, 2, 2, 1, 22]})"),
      std::string::npos)
      << text("again.json");
  const Error error = testkit::error_of([&] { convert("coco.json", "yolo", "set"); });
  EXPECT_NE(std::string(error.what()).find("'a.png': YOLO has no masks"), std::string::npos) << error.what();
}

TEST_F(Convert, WritesNothingOutsideItsFolder) {
  folder_.write(
      "coco.json",
      R"({"images": [{"id": 1, "file_name": "../../C:\\up/a.png", "width": 8, "height": 4}], "categories": [], "annotations": []})");
  convert("coco.json", "yolo", "set/deep");
  EXPECT_EQ(text("set/deep/labels/up/a.txt"), "");
}

}  // namespace
}  // namespace millrace
