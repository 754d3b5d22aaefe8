#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "index_store.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "tar_files_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testing_tar::Folder;
using testing_tar::LocalFiles;
using testing_tar::MemoryWindow;
using testing_tar::TarWriter;

TarIndex build(const TarWriter& tar, const IndexSettings& settings = {}) {
  MemoryWindow window(tar.bytes());
  return build_index(window, index_key(tar.bytes().size(), "v", settings), settings);
}

std::string error_of(const TarWriter& tar, const IndexSettings& settings = {}) {
  try {
    build(tar, settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.message();
  }
  return "";
}

TEST(BuildIndex, GathersMembersOfOneKey) {
  const TarIndex index = build(TarWriter()
                                   .file("a/1.5.jpg", "first")  // the key is "a/1"
                                   .file("x/7.cls", "3")
                                   .file("x/7.JPEG", "image")
                                   .file("x/8.png", "other")
                                   .file("x/8.cls", "dog")
                                   .file("x/8.txt", "passed over")
                                   .end());
  ASSERT_EQ(index.size(), 2U);
  EXPECT_EQ(index.name(0), "x/7.JPEG");
  EXPECT_EQ(index.label(0), 3);
  EXPECT_EQ(index.image(0).bytes, 5U);
  EXPECT_EQ(index.image(0).offset, 2560U);
  EXPECT_EQ(index.label(1), TarIndex::kFirstName);
  EXPECT_EQ(index.class_names(), (std::vector<std::string>{"dog"}));
  EXPECT_EQ(index.largest(), 5U);
  EXPECT_EQ(index.largest_label(), 3);
}

TEST(BuildIndex, PassesOverHiddenMembersAndOthersWithoutExtension) {
  EXPECT_EQ(
      build(TarWriter().file("._a.jpg", "1").file("dir/.b.jpg", "1").file("LICENSE", "1").file("./c.jpg", "1").end()).size(), 1U);
}

TEST(BuildIndex, KeepsSamplesThatLackSomethingForThePolicyToDealWith) {
  const TarIndex index = build(TarWriter().file("a.cls", "1").file("b.jpg", "x").file("c.jpg", "x").file("c.cls", "").end());
  ASSERT_EQ(index.size(), 3U);
  EXPECT_EQ(index.image(0).offset, 0U);
  EXPECT_EQ(index.label(1), TarIndex::kNoLabel);
  EXPECT_EQ(index.label(2), TarIndex::kUnreadable);
}

TEST(BuildIndex, NamesSamplesWhoseMembersLieApart) {
  EXPECT_MESSAGE(error_of(TarWriter().file("a.jpg", "1").file("b.jpg", "1").file("a.cls", "1").end()));
}

TEST(BuildIndex, NamesMembersThatAreOneTooMany) {
  EXPECT_MESSAGE(error_of(TarWriter().file("a.jpg", "1").file("a.jpg", "1").end()));
  EXPECT_NE(error_of(TarWriter().file("a.jpg", "1").file("a.png", "1").end()), "");
  EXPECT_NE(error_of(TarWriter().file("a.cls", "1").file("a.cls", "1").end()), "");
}

TEST(BuildIndex, OrderOfKeysIsFreeAsLongAsNoneComesTwice) {
  EXPECT_EQ(build(TarWriter().file("c.jpg", "1").file("a.jpg", "1").file("b.jpg", "1").end()).size(), 3U);
}

TEST(BuildIndex, RefusesImagesThatAreLinks) {
  EXPECT_MESSAGE(error_of(TarWriter().file("a.jpg", "1").member("b.jpg", "", '1').end()));
}

TEST(BuildIndex, ReadsLabelsAndNumbersOfJson) {
  IndexSettings settings;
  settings.label = "class";
  settings.numbers = "y";
  const TarIndex index = build(TarWriter()
                                   .file("a.jpg", "1")
                                   .file("a.json", R"({"class": 2, "y": [1, 2]})")
                                   .file("a.cls", "9")
                                   .file("b.jpg", "1")
                                   .file("b.json", R"({"y": [3, 4]})")
                                   .end(),
                               settings);
  EXPECT_EQ(index.label(0), 2);
  EXPECT_EQ(index.label(1), TarIndex::kUnreadable);
  std::vector<float> numbers;
  index.numbers(1, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{3, 4}));
  EXPECT_MESSAGE(error_of(
      TarWriter().file("a.jpg", "1").file("a.json", R"({"y": [1, 2]})").file("b.jpg", "1").file("b.json", R"({"y": [3]})").end(),
      settings));
}

TEST(BuildIndex, FindsTargets) {
  IndexSettings settings;
  settings.target = "label";
  const TarIndex index = build(TarWriter().file("a.jpg", "1").file("a.label.png", "target").file("b.jpg", "1").end(), settings);
  EXPECT_EQ(index.target(0).bytes, 6U);
  EXPECT_EQ(index.target(1).offset, 0U);
  EXPECT_EQ(index.largest(), 7U);
}

// ---- the file ----

const IndexKey kKey = index_key(5120, "v", {});

std::vector<std::uint8_t> file() {
  IndexSettings settings;
  const TarWriter tar = TarWriter().file("a.jpg", "1").file("a.cls", "dog").file("b.jpg", "22").file("b.cls", "1").end();
  EXPECT_EQ(tar.bytes().size(), 5120U);
  const TarIndex index = build(tar, settings);
  return {index.bytes().begin(), index.bytes().end()};
}

std::string load_error(std::vector<std::uint8_t> bytes, const IndexKey& key = kKey) {
  try {
    const TarIndex index(std::move(bytes), key);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.message();
  }
  return "";
}

// A file with valid checksums.
std::vector<std::uint8_t> sealed(std::vector<std::uint8_t> bytes) {
  const std::uint64_t checksum = hash_bytes(bytes.data() + 16, bytes.size() - 16);
  std::memcpy(bytes.data() + 8, &checksum, 8);
  return bytes;
}

TEST(TarIndexFile, ComesBackAsItWasWritten) {
  const TarIndex index(file(), kKey);
  ASSERT_EQ(index.size(), 2U);
  EXPECT_EQ(index.name(1), "b.jpg");
  EXPECT_EQ(index.image(1).bytes, 2U);
  EXPECT_EQ(index.label(0), TarIndex::kFirstName);
  EXPECT_EQ(index.label(1), 1);
  EXPECT_EQ(index.class_names(), (std::vector<std::string>{"dog"}));
}

TEST(TarIndexFile, NoChangedByteIsBelieved) {
  const std::vector<std::uint8_t> good = file();
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= 0x10U;
    EXPECT_NE(load_error(bad), "") << i;
    EXPECT_NE(load_error({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i)}), "") << i;
  }
}

TEST(TarIndexFile, IsOfOneShardAndOneSetting) {
  EXPECT_EQ(load_error(file()), "");
  EXPECT_NE(load_error(file(), index_key(5121, "v", {})), "");
  EXPECT_NE(load_error(file(), index_key(5120, "w", {})), "");
  EXPECT_NE(load_error(file(), index_key(5120, "v", {"class", {}, {}})), "");
}

TEST(TarIndexFile, ValuesOutOfBoundsAreRefusedEvenWithARightChecksum) {
  const auto with = [](std::size_t at, std::uint32_t value) {
    auto bytes = file();
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return load_error(sealed(bytes));
  };
  constexpr std::size_t entry = 120;
  EXPECT_EQ(with(entry, 512), "");
  EXPECT_MESSAGE(with(entry, 6000));
  EXPECT_MESSAGE(with(entry + 8, 6000));
  EXPECT_MESSAGE(with(entry + 12, 100));
  EXPECT_MESSAGE(with(entry + 16, static_cast<std::uint32_t>(-4)));
  EXPECT_MESSAGE(with(entry + 16, 2000000));
  EXPECT_MESSAGE(with(40, 1000));
  EXPECT_MESSAGE(with(48, 1000));
  EXPECT_MESSAGE(with(72, 1000));
  EXPECT_MESSAGE(with(64, 0xffffffff));
}

// ---- storage ----

class KeepIndex : public testing::Test {
 protected:
  Shard shard(const std::string& url) {
    const Storage::Object object = storage_.stat(url);
    return {&storage_, url, object.bytes, object.version, true};
  }
  TarIndex open(const std::string& url, const IndexSettings& settings = {}) {
    return IndexStore(settings, [this](const std::string& why) { complaints_.push_back(why); }).open(shard(url));
  }

  Folder folder_;
  LocalFiles storage_;
  std::vector<std::string> complaints_;
  const std::string archive_ = TarWriter().file("a.jpg", "1").end().bytes();
};

TEST_F(KeepIndex, LiesBesideTheShardAndSparesReadingItAgain) {
  const std::string url = folder_.write("x.tar", archive_);
  EXPECT_EQ(open(url).size(), 1U);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"x.tar", "x.tar.index"}));
  const std::uint64_t before = storage_.read_bytes;
  EXPECT_GT(before, 0U);
  EXPECT_EQ(open(url).name(0), "a.jpg");
  EXPECT_EQ(storage_.read_bytes, before);
}

// As with some web servers. Otherwise another archive of the same size would be read by this one's index.
TEST_F(KeepIndex, OfAShardWithoutAVersionIsMadeEachTime) {
  const auto opened = [&](const std::string& archive) {
    Shard without = shard(folder_.write("x.tar", archive));
    without.version.clear();
    return IndexStore({}, [this](const std::string& why) { complaints_.push_back(why); }).open(without);
  };
  EXPECT_EQ(opened(archive_).name(0), "a.jpg");
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"x.tar"}));
  EXPECT_EQ(opened(TarWriter().file("b.jpg", "1").end().bytes()).name(0), "b.jpg");
  ASSERT_EQ(complaints_.size(), 2U);
  EXPECT_MESSAGE(complaints_[0]);
}

TEST_F(KeepIndex, IsMadeAnewWhenTheShardHasChanged) {
  const std::string url = folder_.write("x.tar", archive_);
  open(url);
  folder_.write("x.tar", TarWriter().file("b.jpg", "1").file("c.jpg", "1").end().bytes());
  EXPECT_EQ(open(url).size(), 2U);
  EXPECT_EQ(open(url).name(0), "b.jpg");
}

TEST_F(KeepIndex, IsMadeAnewWhenItIsDamaged) {
  const std::string url = folder_.write("x.tar", archive_);
  open(url);
  folder_.write("x.tar.index", "garbage");
  const std::uint64_t before = storage_.read_bytes;
  EXPECT_EQ(open(url).size(), 1U);
  EXPECT_GT(storage_.read_bytes, before);
  const std::uint64_t after = storage_.read_bytes;
  open(url);
  EXPECT_EQ(storage_.read_bytes, after);
}

TEST_F(KeepIndex, IsMadeAnewWhenItIsLongerThanAnyIndexOfTheShard) {
  const std::string url = folder_.write("x.tar", archive_);
  folder_.write("x.tar.index", "");
  std::filesystem::resize_file(folder_ / "x.tar.index", std::uintmax_t{1} << 40U);  // sparse: takes no space on the disk
  EXPECT_EQ(open(url).size(), 1U);
  EXPECT_LT(std::filesystem::file_size(folder_ / "x.tar.index"), 1000U);
}

TEST_F(KeepIndex, GoesToTheCacheFolderWhereItCannotLieBesideTheShard) {
  const std::string url = folder_.write("x.tar", archive_);
  std::filesystem::create_directories(folder_ / "x.tar.index/in_the_way");  // blocks even a user who may write everywhere
  EXPECT_EQ(open(url).size(), 1U);
  const std::vector<std::string> names = folder_.names();
  ASSERT_EQ(names.size(), 2U);
  EXPECT_TRUE(names[0].starts_with("cache/millrace/tar/x.tar-")) << names[0];
  const std::uint64_t before = storage_.read_bytes;
  EXPECT_EQ(open(url).size(), 1U);
  EXPECT_EQ(storage_.read_bytes, before);
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(KeepIndex, SaysWhyItCannotBeKept) {
  const std::string url = folder_.write("x.tar", archive_);
  std::filesystem::create_directories(folder_ / "x.tar.index/in_the_way");
  folder_.write("cache", "a file where a folder has to be");
  EXPECT_EQ(open(url).size(), 1U);
  ASSERT_EQ(complaints_.size(), 1U);
  EXPECT_NE(complaints_[0].find("Not a directory"), std::string::npos) << complaints_[0];
}

}  // namespace
}  // namespace millrace
