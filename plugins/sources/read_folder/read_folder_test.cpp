#include "read_folder_fixture.h"

#include <gtest/gtest.h>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

TEST_F(ReadFolderTest, NamesClassesAfterFoldersAndSortsBytewise) {
  write("dog/b.jpg");
  write("dog/a.JPG");
  write("dog/B.jpeg");
  write("cat/z.jpg");
  write("Zebra/1.jpg");
  const auto source = opened(params());
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"Zebra", "cat", "dog"}));
  ASSERT_EQ(source->size(), 5U);
  EXPECT_EQ(path_of(*source, 0), "Zebra/1.jpg:0");
  EXPECT_EQ(path_of(*source, 1), "cat/z.jpg:1");
  EXPECT_EQ(path_of(*source, 2), "dog/B.jpeg:2");
  EXPECT_EQ(path_of(*source, 3), "dog/a.JPG:2");
  EXPECT_EQ(path_of(*source, 4), "dog/b.jpg:2");
}

TEST_F(ReadFolderTest, ReadsImagesThatHaveNoClassWhereverTheyLie) {
  write("b.jpg");
  write("holidays/a.jpg");
  write("holidays/notes.txt");
  ReadFolder::Params without = params();
  without.labels = "none";
  without.classes = {"cat", "dog"};  // the network's
  const auto source = opened(without);
  ASSERT_EQ(source->size(), 2U);
  EXPECT_EQ(path_of(*source, 0), "b.jpg:-1");
  EXPECT_EQ(path_of(*source, 1), "holidays/a.jpg:-1");
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(warnings_.warnings().empty());
  without.label = "(b)";
  EXPECT_NE(error_of(without).message().find("exclude each other"), std::string::npos);
}

TEST_F(ReadFolderTest, ALinkThatLeadsNowhereIsABadSample) {
  write("cat/1.jpg");
  fs::create_symlink("gone", root_ / "cat/2.jpg");
  fs::create_symlink("gone", root_ / "cow");
  const auto source = opened(params());
  ASSERT_EQ(source->size(), 2U);
  EXPECT_EQ(warnings_.warnings(),
            (std::vector<std::string>{fmt::format("left out of '{}': 1 broken link, 'cow'", root_.path().string())}));
  Sample sample;
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { testkit::read(*source, 1, sample); }).message());
}

TEST_F(ReadFolderTest, NestedFoldersBelongToTheirClassInTheOrderOfWholePaths) {
  write("cat/a/2.jpg");
  write("cat/a.jpg");  // '.' comes before '/'
  write("cat/a/b/c/1.jpg");
  write("cat-big/1.jpg");  // '-' comes before '/', but the class "cat" comes before "cat-big"
  const auto source = opened(params());
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "cat-big"}));
  EXPECT_EQ(path_of(*source, 0), "cat-big/1.jpg:1");
  EXPECT_EQ(path_of(*source, 1), "cat/a.jpg:0");
  EXPECT_EQ(path_of(*source, 2), "cat/a/2.jpg:0");
  EXPECT_EQ(path_of(*source, 3), "cat/a/b/c/1.jpg:0");
}

TEST_F(ReadFolderTest, ReadsTheBytesAndTheLargestSize) {
  write("a/1.jpg", "one");
  write("a/2.jpg", std::string(100'000, 'x'));
  const auto source = opened(params());
  EXPECT_EQ(source->largest_encoded(), 100'000U);
  Sample sample;
  sample.key.index = 1;
  source->read(sample);
  EXPECT_EQ(sample.encoded.size(), 100'000U);
  sample.key.index = 0;
  source->read(sample);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.encoded.data()), sample.encoded.size()), "one");
  EXPECT_EQ(sample.url, root_ / "a/1.jpg");
}

TEST_F(ReadFolderTest, OtherExtensionsCanBeAskedFor) {
  write("a/1.png");
  write("a/2.jpg");
  write("a/3.tif");
  EXPECT_EQ(opened(params())->size(), 2U);
  auto with_tif = params();
  with_tif.extensions = {".TIF"};
  EXPECT_EQ(opened(with_tif)->size(), 1U);
}

TEST_F(ReadFolderTest, GivenClassesKeepTheirLabels) {
  write("bird/1.jpg");
  write("dog/1.jpg");
  auto given = params();
  given.classes = {"dog", "cat", "bird"};
  const auto source = opened(given);
  EXPECT_EQ(path_of(*source, 0), "bird/1.jpg:2");
  EXPECT_EQ(path_of(*source, 1), "dog/1.jpg:0");
  ASSERT_EQ(warnings_.warnings().size(), 1U);
  EXPECT_MESSAGE(warnings_.warnings()[0]);
  given.classes = {"dog", "birds"};
  EXPECT_MESSAGE(error_of(given).message());
  write("elk/1.jpg");
  const std::string several = error_of(given).message();
  EXPECT_MESSAGE(several);
}

TEST_F(ReadFolderTest, AMissingFolderIsNamedWithTheParentThatExists) {
  write("train/a/1.jpg");
  auto missing = params();
  missing.path = root_ / "trian/x";
  const Error error = testkit::error_of(ErrorKind::data, [&] { ReadFolder source(missing, context_); });
  EXPECT_EQ(error.context(), std::vector<std::string>{"path"});
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadFolderTest, AFileIsNoFolder) {
  write("a/1.jpg");
  auto file = params();
  file.path = root_ / "a/1.jpg";
  EXPECT_NE(error_of(file).message().find("is not a folder"), std::string::npos);
}

TEST_F(ReadFolderTest, AnEmptyFolderIsSaidToBeEmpty) {
  const Error error = error_of(params());
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadFolderTest, FilesOfOtherProgramsAreNamed) {
  write("README");
  write("train.parquet");
  EXPECT_MESSAGE(error_of(params()).message());
}

TEST_F(ReadFolderTest, ClassFoldersWithoutAnyImageAreNoDataSet) {
  write("a/1.gif");
  const Error error = error_of(params());
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadFolderTest, AnImageOutsideTheClassFoldersIsAMistake) {
  write("a/1.jpg");
  write("stray.jpg");
  const Error error = error_of(params());
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadFolderTest, ImagesWithoutClassFoldersHaveNoLabels) {
  write("1.jpg");
  write("2.jpg");
  const std::string said = error_of(params()).message();
  EXPECT_MESSAGE(said);
}

TEST_F(ReadFolderTest, ALinkThatLeadsBackIsFound) {
  write("a/1.jpg");
  fs::create_directory_symlink(root_ / "a", root_ / "a/again");
  EXPECT_NE(error_of(params()).message().find("a link leads back"), std::string::npos);
}

TEST_F(ReadFolderTest, AFileThatVanishedIsABadSample) {
  write("a/1.jpg");
  const auto source = opened(params());
  fs::remove(root_ / "a/1.jpg");
  Sample sample;
  const Error error = testkit::error_of(ErrorKind::content, [&] { source->read(sample); });
  EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
}

TEST_F(ReadFolderTest, APatternFindsTheClassInThePathWhereverTheFileLies) {
  write("dog.1.jpg");
  write("train/cat.2.jpg");
  write("train/dog.10.JPG");
  write("notes.txt");
  fs::create_directories(root_ / "empty");
  const auto source = opened(labelled(R"((cat|dog)\.\d+\.)"));
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(source->size(), 3U);
  EXPECT_EQ(path_of(*source, 0), "dog.1.jpg:1");
  EXPECT_EQ(path_of(*source, 1), "train/cat.2.jpg:0");
  EXPECT_EQ(path_of(*source, 2), "train/dog.10.JPG:1");
}

TEST_F(ReadFolderTest, APatternAndGivenClassesGoTogether) {
  write("b_dog.jpg");
  auto given = labelled("_([a-z]+)");
  given.classes = {"wolf", "dog"};
  EXPECT_EQ(path_of(*opened(given), 0), "b_dog.jpg:1");
  given.classes = {"wolf", "dogs"};
  EXPECT_MESSAGE(error_of(given).message());
}

TEST_F(ReadFolderTest, APathThatThePatternDoesNotMatchIsNamed) {
  write("dog.1.jpg");
  write("train/dgo.2.jpg");
  const Error error = error_of(labelled(R"((cat|dog)\.\d)"));
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadFolderTest, APatternMayHaveNamedGroupsAnchorsAndUnicode) {
  write("a/k\xc3\xa4se.1.jpg");
  EXPECT_EQ(opened(labelled(R"(^a/(?P<class>k[\x{e0}-\x{ff}]s.+?)\.\d\.jpg$)"))->classes(),
            std::vector<std::string>{"k\xc3\xa4se"});
}

// Backtracking would take 2^200 attempts here, and a frame of the stack for each character.
TEST_F(ReadFolderTest, NoPatternHangsOnAPath) {
  const std::string name(200, 'a');
  write(name + "/" + name + "/" + name + "/" + name + ".jpg");
  EXPECT_EQ(error_of(labelled("((a+/*)+)+!")).message().find("label: the path 'aaaa"), 0U);
  EXPECT_EQ(opened(labelled("((?:a|/)*)"))->classes().front().size(), 803U);
}

TEST_F(ReadFolderTest, APatternThatIsNoneIsAMistakeInTheFile) {
  const auto message = [&](const std::string& pattern) {
    const Error error = testkit::error_of([&] { ReadFolder(labelled(pattern), context_); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  };
  EXPECT_MESSAGE(message("(cat"));
  EXPECT_MESSAGE(message("(cat)[z-a]"));
  const std::string beyond = "; lookahead, lookbehind and backreferences are not supported, and a named group is (?P<name>...)";
  EXPECT_MESSAGE(message("(cat)(?=x)"));
  EXPECT_EQ(message(R"((cat)\1)"),
            R"(label: '(cat)\1' is not a regular expression: invalid escape sequence: \1 at character 6)" + beyond);
  EXPECT_MESSAGE(message("cat|dog"));
}

TEST_F(ReadFolderTest, AClassThatIsGivenTwiceIsAMistakeInTheFile) {
  auto twice = params();
  twice.classes = {"a", "b", "a"};
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { ReadFolder(twice, context_); }).message());
}

TEST_F(ReadFolderTest, TheFingerprintFollowsNamesAndContent) {
  write("a/1.jpg", "one");
  const auto fingerprint = [&] { return opened(params())->fingerprint(); };
  const std::uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  write("a/notes.txt");
  EXPECT_EQ(fingerprint(), first);
  write("a/2.jpg", "two");
  const std::uint64_t second = fingerprint();
  EXPECT_NE(second, first);
  write("a/2.jpg", "other");
  EXPECT_NE(fingerprint(), second);
}

TEST_F(ReadFolderTest, TheListingsHashFollowsNamesAndLabelsWhereverTheFolderLies) {
  for (const char* name : {"here/a/1.jpg", "here/a/2.jpg", "here/b/1.jpg"}) write(name);
  const auto hash = [&](const std::string& folder, const std::vector<std::string>& classes = {}) {
    ReadFolder::Params there = params();
    there.path = root_ / folder;
    there.classes = classes;
    return opened(there)->listing_hash();
  };
  const std::uint64_t first = hash("here");
  fs::copy(root_ / "here", root_ / "there", fs::copy_options::recursive);  // with other times
  write("there/a/1.jpg", "other bytes");
  EXPECT_EQ(hash("there"), first);
  EXPECT_NE(hash("here", {"b", "a"}), first) << "other labels";
  fs::rename(root_ / "here/a/1.jpg", root_ / "here/a/3.jpg");
  const std::uint64_t renamed = hash("here");
  EXPECT_NE(renamed, first);
  fs::rename(root_ / "here/a/3.jpg", root_ / "here/a/1.jpg");
  EXPECT_EQ(hash("here"), first);
  fs::rename(root_ / "here/a/2.jpg", root_ / "here/b/2.jpg");
  EXPECT_NE(hash("here"), first) << "another class";
}

TEST_F(ReadFolderTest, AnEmptyFileIsABadSample) {
  write("a/1.jpg", "");
  const auto source = opened(params());
  Sample sample;
  try {
    source->read(sample);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::content);
    EXPECT_EQ(sample.label, 0);
  }
}

}  // namespace
}  // namespace millrace
