#include "read_pairs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;

class ReadPairsTest : public testing::Test {
 protected:
  ReadPairsTest() {
    load_plugin(registry_, MILLRACE_PLUGINS "/storage_file.so");
    context_.registry = &registry_;
    context_.run = &run_;
    context_.graph = "train";
    context_.name = "read";
    for (const char* name : {"images/a.jpg", "images/b/1.jpg"}) folder_.write(name, name);
    for (const char* name : {"labels/a.png", "labels/b/1.png"}) folder_.write(name, std::string(name) + " label");
  }

  ReadPairs::Params params() const {
    ReadPairs::Params result;
    result.images = folder_ / "images";
    result.labels = folder_ / "labels";
    result.classes = {{"sky", {0}}, {"building", {4, 2}}};
    return result;
  }
  std::shared_ptr<ReadPairs> opened(const ReadPairs::Params& params) {
    auto source = std::make_shared<ReadPairs>(params, context_);
    source->open();
    return source;
  }
  Error error_of(const ReadPairs::Params& params) {
    return testkit::error_of([&] { opened(params); });
  }
  std::string usage(const ReadPairs::Params& params) {
    const Error error = testkit::error_of([&] { ReadPairs(params, context_); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  // "image|target" of each sample.
  Texts samples(const ReadPairs::Params& params) {
    const auto source = opened(params);
    Texts result;
    Sample sample;
    for (std::uint64_t index = 0; index < source->size(); ++index) {
      testkit::read(*source, index, sample);
      EXPECT_EQ(sample.label, -1);
      EXPECT_LE(sample.encoded.size() + (params.labels ? sample.encoded_target.size() : 0), source->largest_encoded());
      result.push_back(testkit::text(sample.encoded) + "|" + testkit::text(sample.encoded_target));
    }
    return result;
  }

  testkit::TestFolder folder_;
  Registry registry_;
  testkit::RecordedRun run_;
  StepContext context_;
};

TEST_F(ReadPairsTest, MatchesFilesByTheirPathsWithoutExtension) {
  EXPECT_EQ(samples(params()), (Texts{"images/a.jpg|labels/a.png label", "images/b/1.jpg|labels/b/1.png label"}));
  EXPECT_EQ(opened(params())->classes(), (Texts{"sky", "building"}));
  EXPECT_EQ(opened(params())->largest_encoded(), std::string("images/b/1.jpglabels/b/1.png label").size());
  Sample sample;
  testkit::read(*opened(params()), 0, sample);
  EXPECT_EQ(sample.url, folder_ / "images/a.jpg");
  EXPECT_EQ(sample.target_url, folder_ / "labels/a.png");
}

TEST_F(ReadPairsTest, ASlashAtTheEndOfAFolderChangesNothing) {
  auto with_slash = params();
  with_slash.images += '/';
  *with_slash.labels += '/';
  EXPECT_EQ(samples(with_slash), samples(params()));
}

TEST_F(ReadPairsTest, NamesOfLabelsMayHaveASuffix) {
  for (const char* name : {"marked/a_L.png", "marked/b/1_L.png", "marked/a.png"}) folder_.write(name, name);
  auto with_suffix = params();
  with_suffix.labels = folder_ / "marked";
  with_suffix.suffix = "_L";
  EXPECT_EQ(samples(with_suffix), (Texts{"images/a.jpg|marked/a_L.png", "images/b/1.jpg|marked/b/1_L.png"}));
}

TEST_F(ReadPairsTest, NumbersClassesAsTheyAreListed) {
  const TargetSpec target = *ReadPairs(params(), context_).target();
  EXPECT_EQ(target.kind, TargetSpec::Kind::classes);
  EXPECT_EQ(target.ignored, 255);
  EXPECT_EQ(target.classes[0], 0);
  EXPECT_EQ(target.classes[4], 1);
  EXPECT_EQ(target.classes[2], 1);
  for (const std::size_t id : {1U, 3U, 5U, 11U, 255U}) EXPECT_EQ(target.classes[id], 255) << id;
}

TEST_F(ReadPairsTest, AClassWithoutIdsHasItsOwnNumber) {
  auto plain = params();
  plain.classes = {{"sky", {}}, {"building", {}}, {"tree", {7}}};
  const TargetSpec target = *ReadPairs(plain, context_).target();
  EXPECT_EQ(target.classes[0], 0);
  EXPECT_EQ(target.classes[1], 1);
  EXPECT_EQ(target.classes[2], 255);
  EXPECT_EQ(target.classes[7], 2);
}

TEST_F(ReadPairsTest, HandsOnTheColoursOfItsClasses) {
  EXPECT_TRUE(ReadPairs(params(), context_).colours().empty());
  auto coloured = params();
  coloured.classes[0].colour = "#8080FF";
  EXPECT_MESSAGE(usage(coloured));
  coloured.classes[1].colour = "#80000";
  EXPECT_MESSAGE(usage(coloured));
  coloured.classes[1].colour = "#800000";
  EXPECT_EQ(ReadPairs(coloured, context_).colours(), (Texts{"#8080ff", "#800000"}));
  coloured.classes[0].colour.clear();
  EXPECT_MESSAGE(usage(coloured));
}

TEST_F(ReadPairsTest, AnImageAloneIsItsOwnTarget) {
  ReadPairs::Params alone;
  alone.images = folder_ / "images";
  EXPECT_EQ(samples(alone), (Texts{"images/a.jpg|images/a.jpg", "images/b/1.jpg|images/b/1.jpg"}));
  EXPECT_EQ(ReadPairs(alone, context_).target()->kind, TargetSpec::Kind::image);
  EXPECT_TRUE(opened(alone)->classes().empty());
}

TEST_F(ReadPairsTest, AnotherImageCanBeTheTarget) {
  auto pairs = params();
  pairs.classes.clear();
  pairs.target = "image";
  EXPECT_EQ(samples(pairs)[0], "images/a.jpg|labels/a.png label");
  EXPECT_EQ(ReadPairs(pairs, context_).target()->kind, TargetSpec::Kind::image);
}

TEST_F(ReadPairsTest, SaysHowManyTimesAsLargeTargetsAre) {
  auto pairs = params();
  EXPECT_EQ(ReadPairs(pairs, context_).target()->scale, 1);
  pairs.target_scale = 2;
  EXPECT_EQ(ReadPairs(pairs, context_).target()->scale, 2);
  pairs.classes.clear();
  pairs.target = "image";
  EXPECT_EQ(ReadPairs(pairs, context_).target()->scale, 2);
  ReadPairs::Params alone;
  alone.images = folder_ / "images";
  alone.target_scale = 2;
  EXPECT_EQ(ReadPairs(alone, context_).target()->scale, 2) << "decode_image makes the image smaller";
}

TEST_F(ReadPairsTest, NamesFilesWithoutAPartner) {
  folder_.write("images/c.jpg");
  const Error error = error_of(params());
  EXPECT_EQ(error.kind(), ErrorKind::data);
  const std::string advice =
      "unpaired = \"skip\" in [train.read] skips such files, --set train.read.unpaired=skip; with data.path, --set "
      "data.unpaired=skip does so in all parts";
  EXPECT_MESSAGE(error.message());
  folder_.write("labels/d.png");
  EXPECT_MESSAGE(error_of(params()).message());
}

TEST_F(ReadPairsTest, LeavesFilesWithoutAPartnerOutWhenAsked) {
  const Texts before = samples(params());
  folder_.write("images/a2.jpg");
  auto skipping = params();
  skipping.unpaired = "skip";
  EXPECT_EQ(samples(skipping), before);
  EXPECT_MESSAGE(run_.warnings().back());
  folder_.write("labels/d.png");
  EXPECT_EQ(samples(skipping), before);
  EXPECT_MESSAGE(run_.warnings().back());
  folder_.write("others/x.png");
  skipping.labels = folder_ / "others";
  for (const char* unpaired : {"skip", "fail"}) {
    skipping.unpaired = unpaired;
    EXPECT_EQ(
        error_of(skipping).message().find(fmt::format(
            "no file in '{}' has a partner in '{}': '{}' and '{}' do not belong together. Where their names differ, `suffix`",
            folder_ / "images", folder_ / "others", folder_ / "images/a.jpg", folder_ / "others/x.png")),
        0U);
  }
}

// As in PASCAL VOC: the folders contain all parts, and images without masks.
TEST_F(ReadPairsTest, ReadsWhatAListNamesAlone) {
  for (const char* name : {"images/c.jpg", "images/d.jpg", "labels/d.png"}) folder_.write(name, name);
  folder_.write("parts/train.txt", "d\r\n\n  b/1  \n");
  auto listed = params();
  listed.list = folder_ / "parts/train.txt";
  EXPECT_EQ(samples(listed), (Texts{"images/b/1.jpg|labels/b/1.png label", "images/d.jpg|labels/d.png"}));
  EXPECT_TRUE(run_.warnings().empty());
  folder_.write("parts/train.txt",
                "\xef\xbb\xbf"
                "d.jpg\r");
  EXPECT_EQ(samples(listed), Texts{"images/d.jpg|labels/d.png"});
}

TEST_F(ReadPairsTest, NamesWhatAListHasAndNoFolder) {
  auto listed = params();
  listed.list = folder_ / "train.txt";
  folder_.write("train.txt", "a\nx\ny\n");
  const std::string found =
      fmt::format("'{}' names 'x', which has no matching image in '{}', one of 2 such names", *listed.list, folder_ / "images");
  EXPECT_MESSAGE(error_of(listed).message());
  listed.unpaired = "skip";
  EXPECT_EQ(samples(listed).size(), 1U);
  EXPECT_EQ(run_.warnings(), Texts{found});
  folder_.write("train.txt", "x\n");
  EXPECT_MESSAGE(error_of(listed).message());
  folder_.write("train.txt", "\n");
  EXPECT_MESSAGE(error_of(listed).message());
  listed.list = folder_ / "nowhere.txt";
  EXPECT_MESSAGE(error_of(listed).what());
}

// As in Cityscapes: both names have an ending, and other files are next to the label images.
TEST_F(ReadPairsTest, BothNamesMayHaveASuffix) {
  for (const char* name : {"left/x/1_left.png", "left/x/2_left.png", "fine/x/1_fine_ids.png", "fine/x/2_fine_ids.png",
                           "fine/x/1_fine_color.png", "fine/x/2_fine_color.png"})
    folder_.write(name, name);
  auto pairs = params();
  pairs.images = folder_ / "left";
  pairs.labels = folder_ / "fine";
  pairs.suffix = "_fine_ids";
  pairs.image_suffix = "_left";
  const Texts expected{"left/x/1_left.png|fine/x/1_fine_ids.png", "left/x/2_left.png|fine/x/2_fine_ids.png"};
  EXPECT_EQ(samples(pairs), expected);
  EXPECT_TRUE(run_.warnings().empty());
  pairs.image_suffix = "";  // all names have this ending, and none pairs as written
  EXPECT_EQ(samples(pairs), expected);
  EXPECT_MESSAGE(run_.warnings().back());
  pairs.image_suffix = "_right";
  EXPECT_MESSAGE(error_of(pairs).message());
}

TEST_F(ReadPairsTest, ImagesAndLabelsMayLieInFoldersOfOneTree) {
  for (const char* name : {"tree/day/rgb/1.png", "tree/day/mask/1.png", "tree/night/rgb/1.png", "tree/night/mask/1.png"})
    folder_.write(name, name);
  auto pairs = params();
  pairs.images = folder_ / "tree";
  pairs.labels = folder_ / "tree";
  pairs.image_folder = "rgb";
  pairs.label_folder = "mask";
  EXPECT_EQ(samples(pairs), (Texts{"tree/day/rgb/1.png|tree/day/mask/1.png", "tree/night/rgb/1.png|tree/night/mask/1.png"}));
  pairs.leave_out = {"night"};
  EXPECT_EQ(samples(pairs).size(), 1U);
}

TEST_F(ReadPairsTest, ImagesAndLabelsMayLieInOneFolderOrInFoldersOfOtherNames) {
  for (const char* name : {"one/1.png", "one/1_mask.png", "flat/a.png", "flat/1.png"}) folder_.write(name, name);
  auto pairs = params();
  pairs.images = folder_ / "one";
  pairs.labels = folder_ / "one";
  pairs.suffix = "_mask";
  EXPECT_EQ(samples(pairs), Texts{"one/1.png|one/1_mask.png"});
  pairs = params();
  pairs.labels = folder_ / "flat";
  pairs.pair = "name";
  EXPECT_EQ(samples(pairs), (Texts{"images/a.jpg|flat/a.png", "images/b/1.jpg|flat/1.png"}));
  folder_.write("images/c/1.jpg", "");
  EXPECT_MESSAGE(error_of(pairs).message());
}

TEST_F(ReadPairsTest, FilesOfOtherKindsAreCounted) {
  folder_.write("images/c.webp");
  folder_.write("labels/c.tif");
  EXPECT_EQ(samples(params()).size(), 2U);
  EXPECT_MESSAGE(run_.warnings().back());
}

TEST_F(ReadPairsTest, RefusesTwoFilesOfOneName) {
  folder_.write("labels/a.jpg");
  const Error error = error_of(params());
  EXPECT_EQ(error.kind(), ErrorKind::data);
  const std::string same = fmt::format("'a.jpg' and 'a.png' in '{}' have the same name. ", folder_ / "labels");
  EXPECT_TRUE(error.message().starts_with(same)) << error.message();
}

TEST_F(ReadPairsTest, SaysWhenThereIsNoImage) {
  auto others = params();
  others.extensions = {"tif"};
  EXPECT_MESSAGE(error_of(others).message());
  auto unmarked = params();
  unmarked.suffix = "_L";
  EXPECT_MESSAGE(error_of(unmarked).message());
  auto missing = params();
  missing.labels = folder_ / "lables";
  EXPECT_MESSAGE(error_of(missing).what());
}

TEST_F(ReadPairsTest, RefusesClassesThatContradictOneAnother) {
  auto wrong = params();
  wrong.classes = {{"sky", {0}}, {"building", {1, 0}}};
  EXPECT_MESSAGE(usage(wrong));
  wrong = params();
  wrong.ignored = {4};
  EXPECT_MESSAGE(usage(wrong));
  wrong.ignored = {256};
  EXPECT_MESSAGE(usage(wrong));
  wrong = params();
  wrong.classes = {{"sky", {0}}, {"sky", {1}}};
  EXPECT_MESSAGE(usage(wrong));
  wrong.classes.assign(256, {"x", {}});
  EXPECT_MESSAGE(usage(wrong));
}

TEST_F(ReadPairsTest, RefusesParametersThatDoNotFit) {
  auto wrong = params();
  wrong.classes.clear();
  EXPECT_MESSAGE(usage(wrong));
  wrong = params();
  wrong.labels.reset();
  EXPECT_MESSAGE(usage(wrong));
  wrong.target = "classes";
  EXPECT_MESSAGE(usage(wrong));
  wrong = params();
  wrong.balance = true;
  EXPECT_MESSAGE(usage(wrong));
}

TEST_F(ReadPairsTest, RefusesWhatNeedsLabelsWithoutThem) {
  ReadPairs::Params alone;
  alone.images = folder_ / "images";
  alone.unpaired = "skip";
  EXPECT_MESSAGE(usage(alone));
  alone.suffix = "_L";
  EXPECT_MESSAGE(usage(alone));
}

TEST_F(ReadPairsTest, AnEmptyFileIsABadSample) {
  folder_.write("labels/a.png", "");
  const auto source = opened(params());
  Sample sample;
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { testkit::read(*source, 0, sample); }).what());
  EXPECT_EQ(sample.url, folder_ / "images/a.jpg");
}

TEST_F(ReadPairsTest, TheFingerprintFollowsBothFolders) {
  const std::uint64_t first = opened(params())->fingerprint();
  EXPECT_EQ(opened(params())->fingerprint(), first);
  folder_.write("labels/a.png", "other");
  EXPECT_NE(opened(params())->fingerprint(), first);
}

TEST_F(ReadPairsTest, TheListingsHashFollowsTheNamesOfBothFoldersWhereverTheyLie) {
  namespace fs = std::filesystem;
  const auto hash = [&](const ReadPairs::Params& params) { return opened(params)->listing_hash(); };
  const std::uint64_t first = hash(params());
  folder_.write("labels/a.png", "other");
  EXPECT_EQ(hash(params()), first);
  ReadPairs::Params moved = params();
  moved.images = folder_ / "there/images";
  moved.labels = folder_ / "there/labels";
  fs::create_directory(folder_ / "there");
  for (const char* name : {"images", "labels"})
    fs::copy(folder_ / name, folder_ / (std::string("there/") + name), fs::copy_options::recursive);
  EXPECT_EQ(hash(moved), first);
  fs::rename(folder_ / "there/labels/a.png", folder_ / "there/labels/a.jpg");  // still its partner
  EXPECT_NE(hash(moved), first);
  for (const char* name : {"images", "labels"})
    fs::rename(folder_ / (std::string(name) + "/b"), folder_ / (std::string(name) + "/c"));
  EXPECT_NE(hash(params()), first);
}

TEST_F(ReadPairsTest, ReadsCamVid) {
  const char* data = std::getenv("MILLRACE_DATA");
  if (!data) GTEST_SKIP() << "MILLRACE_DATA is not set";
  ReadPairs::Params camvid = params();
  camvid.images = std::string(data) + "/camvid/train/images";
  camvid.labels = std::string(data) + "/camvid/train/labels";
  EXPECT_EQ(samples(camvid).size(), opened(camvid)->size());
  EXPECT_GT(opened(camvid)->size(), 300U);
}

TEST_F(ReadPairsTest, PairsPhotographsAndLabelImagesOfOneFolderByTheirEndings) {
  for (const char* name : {"one/1.jpg", "one/1.png", "one/2.JPEG", "one/2.png"}) folder_.write(name, name);
  auto one = params();
  one.images = folder_ / "one";
  one.labels = one.images;
  EXPECT_EQ(samples(one), (Texts{"one/1.jpg|one/1.png", "one/2.JPEG|one/2.png"}));
  folder_.write("one/3.jpg", "x");
  EXPECT_MESSAGE(error_of(one).message());
}

TEST_F(ReadPairsTest, SaysWhatLiesWhereNoImageIs) {
  for (const char* name : {"arrays/1.npy", "arrays/2.npy"}) folder_.write(name, name);
  auto arrays = params();
  arrays.labels = folder_ / "arrays";
  const std::string said = error_of(arrays).message();
  EXPECT_MESSAGE(said);
}

TEST_F(ReadPairsTest, SaysWhichPatternLeavesNothingOut) {
  folder_.write("images/drafts/1.jpg", "x");
  auto drafts = params();
  drafts.leave_out = {"drafts", "draft"};
  EXPECT_EQ(samples(drafts).size(), 2U);
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

}  // namespace
}  // namespace millrace
