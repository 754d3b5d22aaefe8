#include "write_images.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <limits>

#include "pictures_fixture.h"

#include "testkit/messages.h"

#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Pixels = std::vector<std::uint8_t>;

class WriteImagesTest : public testkit::PredictionsTest {
 protected:
  WriteImagesTest() : PredictionsTest({1, 2, 3}, {3, 1, 2}) {
    network_.mean = {0.5, 0.25, 0};
    network_.deviation = {0.5, 0.25, 1};
  }
};

const std::vector<float> kImage = {-1, 1, 0, 3, 0.2F, 0.6F};  // (3, 1, 2)

TEST_F(WriteImagesTest, UndoesTheNormalisation) {
  const auto harness = made<WriteImages>();
  EXPECT_TRUE(write(*harness, share({kImage})).empty());
  const testkit::Picture picture = testkit::read_png(folder_ / "images/0.png");
  EXPECT_EQ(picture.height, 1);
  EXPECT_EQ(picture.width, 2);
  EXPECT_EQ(picture.pixels, (Pixels{0, 64, 51, 255, 255, 153}));
}

TEST_F(WriteImagesTest, HoldsBackWhatNoPixelCanBe) {
  const auto harness = made<WriteImages>({{"normalised", Value(false)}});
  const float none = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(write(*harness, share({{-0.1F, none, 1.5F, infinite, 0.5F, -infinite}})).empty());
  EXPECT_EQ(testkit::read_png(folder_ / "images/0.png").pixels, (Pixels{0, 255, 128, 0, 255, 0}));
}

TEST_F(WriteImagesTest, WritesGreyPicturesOfOneChannel) {
  network_.layers.back().output = {1, 2, 1};
  const auto harness = made<WriteImages>({{"normalised", Value(false)}});
  EXPECT_TRUE(write(*harness, share({{0.2F, 0.4F}})).empty());
  const testkit::Picture picture = testkit::read_png(folder_ / "images/0.png");
  EXPECT_EQ(picture.height, 2);
  EXPECT_EQ(picture.pixels, (Pixels{51, 102}));
}

TEST_F(WriteImagesTest, NamesFilesAfterSamplesAndLeavesOutWhatWasSkipped) {
  const auto harness = made<WriteImages>({{"names", Value(std::string("number"))}, {"folder", Value(std::string("a/b"))}});
  const Ref<Predictions> one = share({kImage, kImage, kImage});
  one->samples[0].member = "x/7.tar.jpg";
  one->samples[1].counts = false;
  EXPECT_TRUE(write(*harness, one).empty());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "a/b")) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"00000040-7.tar.png", "00000042-2.png"}));
}

TEST_F(WriteImagesTest, NamesTheSecondSampleOfOneName) {
  const auto harness = made<WriteImages>();
  const Ref<Predictions> one = share({kImage, kImage});
  one->samples[1].url = "other/0.png";
  const std::vector<Error> errors = write(*harness, one);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_MESSAGE(errors[0].message());
}

TEST_F(WriteImagesTest, TwoSamplesOfOneNameAreFoundBeforeTheRun) {
  const auto check = [&](const char* names, std::vector<std::string> urls = {"a/0.jpg", "a/1.jpg", "b/0.jpg"}) {
    const auto harness = made<WriteImages>({{"names", Value(names)}});
    std::size_t at = 0;
    const auto next = [&](Predictions::Sample& sample) {
      if (at == urls.size()) return false;
      sample.key.index = at;
      sample.url = urls[at++];
      return true;
    };
    dynamic_cast<const NamesFilesAfterSamples&>(harness->stage()).check_names(next);
  };
  check("number");
  check("path");
  check("stem", {std::string(230, 'x') + ".jpg"});
  EXPECT_THROW(check("stem", {std::string(245, 'x') + ".jpg"}), Error) << "a longer name than files may have";
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { check("stem"); }).message());
}

TEST_F(WriteImagesTest, KeepsTheFoldersOfImagesWhereItIsAskedTo) {
  const auto harness = made<WriteImages>({{"names", Value(std::string("path"))}, {"below", Value(std::string("photos"))}});
  const Ref<Predictions> one = share({kImage, kImage, kImage, kImage, kImage});
  one->samples[0].url = "photos/a/1.jpg";
  one->samples[1].url = "photos/b/1.jpg";
  one->samples[2].url = "photos/b/1.png";
  one->samples[3].url = "/other/../../up/2.jpg";
  one->samples[4].url = "s3://bucket/3.jpg";
  EXPECT_TRUE(write(*harness, one).empty());
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "images")) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder_ / "images"));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a/1.png", "b/1.png", "b/1.png.png", "bucket/3.png", "up/2.png"}));
}

TEST_F(WriteImagesTest, WritesTheSameNamesInTheNextPass) {
  const auto harness = made<WriteImages>();
  const Ref<Predictions> first = share({kImage}), second = share({{0, 0, 0, 0, 0, 0}});
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(testkit::read_png(folder_ / "images/0.png").pixels, (Pixels{128, 64, 0, 128, 64, 0}));
}

TEST_F(WriteImagesTest, AStoppedRunSaysHowManyPicturesThereAre) {
  context_.samples_per_epoch = 5;
  const auto harness = made<WriteImages>();
  const Ref<Predictions> first = share({kImage, kImage, kImage}), second = share({kImage, kImage});
  EXPECT_TRUE(write(*harness, first).empty());
  harness->stage().stop();
  EXPECT_TRUE(run_.warnings().empty()) << "the pass was whole";
  const auto stopped = made<WriteImages>();
  second->last = false;
  EXPECT_TRUE(write(*stopped, second).empty());
  stopped->stage().stop();
  EXPECT_EQ(run_.warnings(),
            std::vector<std::string>{"'" + (folder_ / "images") + "' is incomplete: 2 pictures of 5 images were written"});
}

TEST_F(WriteImagesTest, RefusesWhatIsNoPicture) {
  network_.layers.back().output = {1, 1, 2};
  EXPECT_NE(testkit::error_of([&] { made<WriteImages>(); }).message().find("set normalised = false"), std::string::npos);
  network_.layers.back().output = {2, 1, 2};
  EXPECT_MESSAGE(testkit::error_of([&] { made<WriteImages>(); }).message());
  network_.layers.back().output = {3};
  EXPECT_EQ(testkit::error_of([&] { made<WriteImages>(); }).kind(), ErrorKind::usage);
}

// A limit on file sizes simulates a full disk.
TEST_F(WriteImagesTest, AFullDiskIsNamedAndNothingIsHalfWritten) {
  const auto harness = made<WriteImages>();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<Error> errors = write(*harness, share({kImage, kImage}));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::storage);
  EXPECT_NE(errors[0].message().find("cannot write '" + (folder_ / "images/0.png") + "'"), std::string::npos)
      << errors[0].message();
  EXPECT_TRUE(fs::is_empty(folder_ / "images"));
}

}  // namespace
}  // namespace millrace
