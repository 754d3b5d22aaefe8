#include "shards.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "tar_files_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;

std::string braces_error(const std::string& text) {
  try {
    expand_braces(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "";
}

TEST(Braces, StandForRangesWithLeadingZeros) {
  EXPECT_EQ(expand_braces("a-{08..10}.tar"), (Names{"a-08.tar", "a-09.tar", "a-10.tar"}));
  EXPECT_EQ(expand_braces("{9..11}"), (Names{"9", "10", "11"}));
}

TEST(Braces, StandForAlternativesAndCombine) {
  EXPECT_EQ(expand_braces("{x,yy}/{0..1}.tar"), (Names{"x/0.tar", "x/1.tar", "yy/0.tar", "yy/1.tar"}));
  EXPECT_EQ(expand_braces("plain.tar"), (Names{"plain.tar"}));
}

TEST(Braces, ThatMakeNoSenseAreNamed) {
  EXPECT_MESSAGE(braces_error("a{0..x}"));
  EXPECT_NE(braces_error("{5..3}"), "");
  EXPECT_NE(braces_error("{0..99999999}"), "");
  EXPECT_MESSAGE(braces_error("a{0..3"));
  EXPECT_NE(braces_error("a}b"), "");
  EXPECT_NE(braces_error("{a{b}}"), "");
  EXPECT_NE(braces_error("{0..9999}{0..9999}").find("stands for more than"), std::string::npos);
}

class FindShards : public testing::Test {
 protected:
  Names find(const std::vector<std::string>& paths) {
    Names names;
    std::vector<ShardPath> as_patterns;
    for (const std::string& path : paths) as_patterns.push_back({path, 0});
    LeftOut left_out;
    for (const Shard& shard : find_shards(
             as_patterns, [this](const std::string&) -> Storage& { return storage_; }, left_out)) {
      const bool below = shard.url.starts_with(folder_.path().string() + "/");
      names.push_back(below ? shard.url.substr(folder_.path().string().size() + 1) : shard.url);
    }
    return names;
  }
  Error error(const std::string& path) {
    try {
      find({path});
    } catch (const Error& thrown) {
      return thrown;
    }
    return {ErrorKind::run, ""};
  }

  testing_tar::Folder folder_;
  testing_tar::LocalFiles storage_;
};

TEST_F(FindShards, InAFolderAreAllTarFilesBelowIt) {
  for (const char* name : {"b.tar", "a/z.tar", "a.tar", "a.tar.index", ".b.tar.index.1.2", "notes.txt"}) folder_.write(name, "");
  EXPECT_EQ(find({folder_.path().string()}), (Names{"a.tar", "a/z.tar", "b.tar"}));
}

TEST_F(FindShards, OfAFormAreThoseThatMatch) {
  for (const char* name : {"train-0.tar", "train-1.tar", "test-0.tar", "deep/train-2.tar"}) folder_.write(name, "");
  EXPECT_EQ(find({folder_ / "train-*.tar"}), (Names{"train-0.tar", "train-1.tar"}));
  EXPECT_EQ(find({folder_ / "*/*.tar"}), (Names{"deep/train-2.tar"}));
  EXPECT_EQ(find({folder_ / "t*-[0].tar"}), (Names{"test-0.tar", "train-0.tar"}));
}

TEST_F(FindShards, NamedOnesAreTakenInTheGivenOrder) {
  EXPECT_EQ(find({folder_ / "b.tar", folder_ / "a.tar"}), (Names{"b.tar", "a.tar"}));
}

TEST_F(FindShards, ThatAreNotThereAreAMistakeInTheData) {
  folder_.write("a.txt", "");
  EXPECT_EQ(error(folder_ / "*.tar").kind(), ErrorKind::data);
  EXPECT_NE(error(folder_ / "*.tar").message().find("no shard matches '"), std::string::npos);
  EXPECT_MESSAGE(error(folder_.path().string()).message());
}

TEST_F(FindShards, ThatAreCompressedAreRefused) {
  EXPECT_EQ(error(folder_ / "a.tar.gz").kind(), ErrorKind::usage);
  EXPECT_NE(error(folder_ / "a.tar.gz").message().find("is compressed"), std::string::npos);
  folder_.write("b.tar.zst", "");
  EXPECT_NE(error(folder_ / "b.*").message().find("is compressed"), std::string::npos);
}

TEST(FolderOf, IsWhatComesBeforeTheLastSlash) {
  EXPECT_EQ(folder_of("a/b.tar"), "a");
  EXPECT_EQ(folder_of("s3://bucket/x/b.tar"), "s3://bucket/x");
  EXPECT_EQ(folder_of("/b.tar"), "/");
  EXPECT_EQ(folder_of("b.tar"), ".");
}

TEST(MissingNumbers, AreThoseBetweenTheFirstAndTheLastOfAListing) {
  const auto missing = [](const std::vector<std::string>& names, bool listed = true) {
    std::vector<Shard> shards;
    for (const std::string& name : names) shards.push_back({nullptr, name, 0, {}, listed});
    return missing_numbers(shards);
  };
  EXPECT_MESSAGE(missing({"a-00.tar", "a-01.tar", "a-03.tar"}));
  EXPECT_MESSAGE(missing({"1/a-7.tar", "1/a-9.tar", "1/a-6.tar", "2/b-0.tar"}));
  EXPECT_MESSAGE(missing({"a-0.tar", "a-3.tar", "a-4.tar"}));
  EXPECT_EQ(missing({"a-08.tar", "a-09.tar", "a-10.tar"}), "");
  EXPECT_EQ(missing({"a-0.tar", "b-2.tar", "c.tar"}), "");
  EXPECT_EQ(missing({"2026-01-31.tar", "2026-02-28.tar", "20260301.tar"}), "") << "dates";
  EXPECT_EQ(missing({"a-0.tar", "a-2.tar", "a-3.tar"}, false), "") << "they were named one by one";
}

}  // namespace
}  // namespace millrace
