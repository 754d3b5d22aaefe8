#include "shapes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "shape_image.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "verbs.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class ShapesTest : public testing::Test {
 protected:
  ShapesTest() {
    root_ = fs::temp_directory_path() /
            fmt::format("millrace_shapes_{}_{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);  // from a killed test
    options_.count = 43;
    options_.validation = 20;
    options_.size = 16;
  }
  ~ShapesTest() override { fs::remove_all(root_); }

  // Path relative to the destination -> bytes.
  std::map<std::string, std::string> make(const std::string& name, unsigned threads = 2) {
    options_.destination = (root_ / name).string();
    options_.threads = threads;
    make_shapes(options_);
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(options_.destination)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files[fs::relative(entry.path(), options_.destination).string()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  fs::path root_;
  ShapesOptions options_;
};

TEST_F(ShapesTest, WritesBothSplitsIntoClassFolders) {
  const auto files = make("a");
  EXPECT_EQ(files.size(), 63U);
  for (const std::string_view name : kShapeNames) {
    EXPECT_TRUE(files.contains(fmt::format("train/{}/00003.jpg", name)));
    EXPECT_TRUE(files.contains(fmt::format("test/{}/00001.jpg", name)));
  }
  EXPECT_TRUE(files.contains(fmt::format("train/{}/00004.jpg", kShapeNames[2])));
  EXPECT_NE(files.at("train/circle/00000.jpg"), files.at("test/circle/00000.jpg"));
  EXPECT_EQ(files.at("train/circle/00000.jpg").substr(0, 2), "\xff\xd8");
}

TEST_F(ShapesTest, TheSameSeedWritesTheSameBytesOnAnyNumberOfThreads) {
  const auto files = make("a", 1);
  EXPECT_EQ(make("b", 3), files);
  options_.seed = 2;
  EXPECT_NE(make("c", 3), files);
}

TEST_F(ShapesTest, LeavesAFolderAloneThatIsNotEmpty) {
  make("a");
  const Error error = testkit::error_of(ErrorKind::usage, [&] { make("a"); });
  EXPECT_NE(error.message().find("exists and is not empty"), std::string::npos);
  options_.force = true;
  EXPECT_EQ(make("a").size(), 63U);
}

TEST_F(ShapesTest, RemovesWhatAnEarlierCallHasDrawnBeyondItsCountsAndNothingElse) {
  make("a");
  const std::vector<std::string> others = {
      "train/circle/1.jpg", "train/circle/000009.jpg", "train/circle/00009.jpeg", "test/star/mine.jpg",
      "00009.jpg",          "train/mine/00009.jpg"};
  for (const std::string& name : others) {
    fs::create_directories((root_ / "a" / name).parent_path());
    std::ofstream(root_ / "a" / name) << "mine";
  }
  fs::create_directory(root_ / "a/train/circle/00008.jpg");
  options_.force = true;
  options_.count = 21;
  options_.validation = 0;
  options_.size = 8;
  auto files = make("a");
  for (const std::string& name : others) EXPECT_EQ(files[name], "mine") << name;
  EXPECT_EQ(files.size(), 21 + others.size());
  EXPECT_TRUE(fs::exists(root_ / "a/train/circle/00008.jpg"));
}

TEST_F(ShapesTest, ReadsItsCommandLine) {
  const std::string destination = (root_ / "d").string();
  const char* arguments[] = {"shapes", destination.c_str(), "--count", "10", "--validation=0", "--size", "8"};
  EXPECT_EQ(shapes_verb(7, arguments), 0);
  EXPECT_TRUE(fs::exists(root_ / "d/train/star/00000.jpg"));
  const char* wrong[] = {"shapes", destination.c_str(), "--count", "many"};
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { shapes_verb(4, wrong); }).message());
  const char* nowhere[] = {"shapes"};
  EXPECT_THROW(shapes_verb(1, nowhere), Error);
}

}  // namespace
}  // namespace millrace
