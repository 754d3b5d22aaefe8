#include "shard_writer.h"

#include <gtest/gtest.h>
#include <png_file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "image_bytes.h"
#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string member(const std::string& name, const std::string& content) {
  std::string archive;
  append_member(archive, name, content);
  return archive;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ShardWriterTest : public testing::Test {
 protected:
  ShardWriterTest() {
    folder_ = fs::path(testing::TempDir()) / ("millrace_shards_" + std::to_string(getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);  // from a killed test
  }
  ~ShardWriterTest() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  void write(const std::string& name) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / name) << "old";
  }

  fs::path folder_;
};

using Names = std::vector<std::string>;

TEST(AppendMember, GivesWholeBlocks) {
  EXPECT_EQ(member("a", "").size(), 512U);
  EXPECT_EQ(member("a", "1").size(), 1024U);
  EXPECT_EQ(member("a", std::string(512, '1')).size(), 1024U);
}

TEST_F(ShardWriterTest, StartsAnotherShardWhenOneIsFull) {
  ShardWriter writer(folder_, 2000, false);
  for (int i = 0; i < 5; ++i) writer.add(member(std::to_string(i), "x"));
  writer.finish({});
  EXPECT_EQ(writer.shards(), 3U);
  EXPECT_EQ(names(), (Names{"shard-000000.tar", "shard-000001.tar", "shard-000002.tar"}));
  EXPECT_EQ(read(folder_ / "shard-000002.tar"), member("4", "x") + std::string(1024, '\0'));
  EXPECT_EQ(writer.bytes(), 8U * 1024);
}

TEST_F(ShardWriterTest, NobodySeesAShardBeforeTheLastOneIsWhole) {
  ShardWriter writer(folder_, 1, false);
  writer.add(member("a", "x"));
  writer.add(member("b", "x"));
  for (const std::string& name : names()) EXPECT_EQ(name.front(), '.');
}

TEST_F(ShardWriterTest, LeavesNothingBehindWhenItIsGivenUp) {
  {
    ShardWriter writer(folder_, 1, false);
    writer.add(member("a", "x"));
  }
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(ShardWriterTest, RemovesTheFoldersThatItMadeAndNoOthersWhenItIsGivenUp) {
  write("notes.txt");
  const fs::path inner = folder_ / "a/b/";
  {
    ShardWriter writer(inner, 1, false);
    writer.add(member("a", "x"));
    EXPECT_TRUE(fs::exists(inner));
  }
  EXPECT_EQ(names(), (Names{"notes.txt"}));
}

TEST_F(ShardWriterTest, TakesAwayWhatAKilledOneLeft) {
  write(".shard-000000.tar.part");
  write(".classes.txt.part");
  ShardWriter writer(folder_, 1, false);
  EXPECT_TRUE(names().empty());
}

TEST_F(ShardWriterTest, WritesTheClassesBesideTheShards) {
  ShardWriter writer(folder_, 1, false);
  writer.add(member("a", "x"));
  writer.finish({"cat", "dog"});
  EXPECT_EQ(read(folder_ / "classes.txt"), "cat\ndog\n");
  EXPECT_EQ(writer.shards(), 1U);
}

TEST_F(ShardWriterTest, RefusesAFolderThatIsNotEmpty) {
  write("notes.txt");
  const Error error = testkit::error_of(ErrorKind::usage, [&] { ShardWriter writer(folder_, 1, false); });
  EXPECT_NE(error.message().find("is not empty: name another folder, or give --force"), std::string::npos);
}

TEST_F(ShardWriterTest, WhenForcedItReplacesAnEarlierSetAndNothingElse) {
  for (const char* name : {"notes.txt", "shard-000000.tar", "shard-000007.tar", "shard-000007.tar.index", "classes.txt"})
    write(name);
  ShardWriter writer(folder_, 1, true);
  writer.add(member("a", "x"));
  writer.finish({});
  EXPECT_EQ(names(), (Names{"notes.txt", "shard-000000.tar"}));
  EXPECT_EQ(read(folder_ / "shard-000000.tar").size(), 2048U);
}

TEST_F(ShardWriterTest, KeepsTheNewSetWhereTheEarlierOneCannotBeReplaced) {
  write("shard-000000.tar");
  fs::create_directories(folder_ / "shard-000001.tar/in_the_way");
  const Error error = testkit::error_of(ErrorKind::storage, [&] {
    ShardWriter writer(folder_, 1, true);
    writer.add(member("a", "x"));
    writer.add(member("b", "x"));
    writer.finish({});
  });
  EXPECT_NE(error.message().find("shard-000001.tar'"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("/.shard-000000.tar.whole', ... to 'shard-000000.tar', ..."), std::string::npos)
      << error.message();
  EXPECT_EQ(read(folder_ / ".shard-000000.tar.whole").size(), 2048U);
  EXPECT_EQ(read(folder_ / ".shard-000001.tar.whole").size(), 2048U);
}

TEST_F(ShardWriterTest, AWholeSetThatAKilledOneLeftGoesOnlyForAnotherWholeOne) {
  write(".shard-000007.tar.whole");
  const Error error = testkit::error_of([&] { ShardWriter writer(folder_, 1, false); });
  EXPECT_NE(error.message().find("(.shard-*.whole are shards of a pack that ended"), std::string::npos) << error.message();
  {
    ShardWriter writer(folder_, 1, true);
    writer.add(member("a", "x"));
  }
  EXPECT_EQ(names(), (Names{".shard-000007.tar.whole"})) << "it was given up";
  ShardWriter writer(folder_, 1, true);
  writer.add(member("a", "x"));
  writer.finish({});
  EXPECT_EQ(names(), (Names{"shard-000000.tar"}));
}

TEST_F(ShardWriterTest, WhatItWritesIsAnArchiveToOthersToo) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no tar";
  ShardWriter writer(folder_, 1 << 20, false);
  writer.add(member("000000000.cls", "7") + member("000000000.jpg", std::string(1000, 'j')));
  writer.finish({});
  const std::string shard = (folder_ / "shard-000000.tar").string();
  ASSERT_EQ(std::system(("tar -C '" + folder_.string() + "' -xf '" + shard + "'").c_str()), 0);
  EXPECT_EQ(read(folder_ / "000000000.cls"), "7");
  EXPECT_EQ(read(folder_ / "000000000.jpg"), std::string(1000, 'j'));
}

TEST(ImageBytes, AreOfTheKindTheySay) {
  std::vector<std::uint8_t> pixels(4 * 5 * 3, 100);
  const auto kind = [](const std::string& bytes) {
    ByteBuffer buffer;
    std::copy(bytes.begin(), bytes.end(), buffer.resize(bytes.size()));
    return std::string(image_extension(buffer));
  };
  EXPECT_EQ(kind(png_bytes({pixels.data(), {4, 5, 3}})), "png");
  EXPECT_EQ(kind(png_bytes({pixels.data(), {4, 5, 1}})), "png");
  EXPECT_EQ(kind(jpeg_bytes({pixels.data(), {4, 5, 3}}, 90)), "jpg");
  EXPECT_EQ(kind("something else"), "");
}

}  // namespace
}  // namespace millrace
