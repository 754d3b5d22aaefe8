#include "millrace/util/json_lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "testkit/small_files.h"

namespace millrace {
namespace {

TEST(JsonLine, KeepsItsMembersInOrderAndTheirTypes) {
  EXPECT_EQ(JsonLine()
                .add("b", "text \"quoted\"\n")
                .add("a", 3)
                .add("epochs", 10.0)
                .add("loss", 1e-5)
                .add("whole", true)
                .add("large", std::uint64_t{18446744073709551615U})
                .text(),
            R"({"b":"text \"quoted\"\n","a":3,"epochs":10.0,"loss":1e-05,"whole":true,"large":18446744073709551615})");
  EXPECT_EQ(JsonLine().text(), "{}");
}

TEST(JsonLine, ReplacesWhatJsonCannotHold) {
  EXPECT_EQ(JsonLine().add("path", std::string("a\xff.jpg")).text(), "{\"path\":\"a\\\\xff.jpg\"}");
  EXPECT_EQ(JsonLine().add("path", std::string("a\x1b\x7f\xc2\x9b.jpg")).text(), "{\"path\":\"a\\u001b\\u007f\\u009b.jpg\"}");
  EXPECT_EQ(JsonLine().add("loss", std::numeric_limits<double>::quiet_NaN()).text(), R"({"loss":null})");
}

TEST(LineFile, HasEachLineWhenItIsWritten) {
  const testkit::TestFolder folder;
  const std::string path = folder / "lines.jsonl";
  LineFile file(path, [](std::string_view message) { ADD_FAILURE() << message; });
  file.write("{}");
  file.write(R"({"a":1})");
  std::ifstream stream(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "{}\n{\"a\":1}\n");
}

TEST(LineFile, AppendsBehindTheLastWholeLine) {
  const testkit::TestFolder folder;
  const std::string path = folder / "appended.jsonl";
  for (const std::string before : {"", "{}\n", "{}\n{\"a\":", "{\"a\":"}) {
    std::ofstream(path) << before;
    LineFile(path, {}, true).write("[]");
    std::ifstream stream(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), before.starts_with("{}") ? "{}\n[]\n" : "[]\n");
  }
}

class LinesOfAMovedFile : public testing::Test {
 protected:
  static std::string text(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const testkit::TestFolder folder_;
  std::vector<std::string> warnings_;
  const LineFile::Warn warn_ = [this](std::string_view message) { warnings_.emplace_back(message); };
};

TEST_F(LinesOfAMovedFile, AreInANewOneAndThatIsSaidOnce) {
  const std::string path = folder_ / "lines.jsonl", moved = folder_ / "lines.jsonl.1";
  LineFile file(path, warn_);
  file.write("{}");
  file.sync();
  EXPECT_EQ(warnings_, std::vector<std::string>{});
  std::filesystem::rename(path, moved);
  file.sync();
  file.write("[]");
  EXPECT_EQ(text(moved), "{}\n");
  EXPECT_EQ(text(path), "[]\n");
  std::filesystem::remove(path);
  file.sync();
  file.write("[1]");
  file.finish();
  EXPECT_EQ(text(path), "[1]\n");
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"'" + path + "' was moved or removed: later lines go into a new file of this name"});
}

TEST_F(LinesOfAMovedFile, AreLostWithItsFolderAndThatIsSaidOnce) {
  const std::string folder = folder_ / "run", path = folder + "/lines.jsonl";
  std::filesystem::create_directory(folder);
  LineFile file(path, warn_);
  std::filesystem::remove_all(folder);
  for (int i = 0; i < 2; ++i) file.sync();
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "'" + path +
                           "' was moved or removed, and cannot be created again: its lines are lost: No such file or directory"});
  std::filesystem::create_directory(folder);
  file.sync();
  file.write("{}");
  EXPECT_EQ(text(path), "{}\n");
}

// The lines of a run whose disk was full for a while.
class LinesOnAFullDisk : public testing::Test {
 protected:
  std::string text() const {
    std::ifstream stream(path_);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  LineFile::Warn warn() {
    return [this](std::string_view message) { warnings_.emplace_back(message); };
  }

  const testkit::TestFolder folder_;
  const std::string path_ = (folder_.path() / "lines.jsonl").string();
  std::vector<std::string> warnings_;
};

TEST_F(LinesOnAFullDisk, AreWholeAndNoneIsMissingOnceThereIsRoom) {
  LineFile file(path_, warn());
  {
    const testkit::SmallFiles small(20);
    for (const char* line : {R"({"a":1})", R"({"a":2})", R"({"a":3})"}) file.write(line);
    EXPECT_EQ(text(), "{\"a\":1}\n{\"a\":2}\n") << "half of the third line stays";
    file.write(R"({"a":4})");
    EXPECT_EQ(text(), "{\"a\":1}\n{\"a\":2}\n");
  }
  file.write(R"({"a":5})");
  EXPECT_EQ(text(), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n{\"a\":5}\n");
  EXPECT_EQ(warnings_, std::vector<std::string>{"lines of '" + path_ + "' wait in memory: File too large"});
}

TEST_F(LinesOnAFullDisk, AreWrittenByTheEndOfTheFileAtTheLatest) {
  {
    LineFile file(path_, warn());
    const testkit::SmallFiles small(4);
    file.write("12345");
    EXPECT_EQ(text(), "");
    file.sync();
    EXPECT_EQ(text(), "");
  }
  {
    LineFile file(path_, warn());
    {
      const testkit::SmallFiles small(4);
      file.write("12345");
    }
    file.sync();
    EXPECT_EQ(text(), "12345\n");
    {
      const testkit::SmallFiles small(8);
      file.write("abcde");
    }
  }
  EXPECT_EQ(text(), "12345\nabcde\n");
}

TEST_F(LinesOnAFullDisk, AreLostWhenTooManyWaitAndThatIsSaid) {
  LineFile file(path_, warn());
  const std::string long_line(std::size_t{1} << 20, 'x');
  {
    const testkit::SmallFiles small(0);
    for (int i = 0; i < 8; ++i) file.write(long_line);
  }
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_EQ(warnings_[1], "lines of '" + path_ + "' are lost: File too large");
  file.write("{}");
  EXPECT_LT(text().size(), LineFile::kMaxKept);
  EXPECT_TRUE(text().ends_with("x\n{}\n"));
}

TEST_F(LinesOnAFullDisk, AreCountedAtTheEndAndSaidOnceWhenACheckpointStandsBehindThem) {
  LineFile file(path_, warn());
  file.write("{}");
  file.sync();
  file.finish();
  EXPECT_EQ(warnings_, std::vector<std::string>{});
  {
    const testkit::SmallFiles small(3);
    file.write("[]");
    file.write("[]");
    file.sync();
    file.sync();
    const Error error = testkit::error_of([&] { file.finish(); });
    EXPECT_EQ(error.kind(), ErrorKind::run);
    EXPECT_STREQ(error.what(), ("'" + path_ + "' lacks 2 lines: File too large").c_str());
  }
  EXPECT_EQ(warnings_,
            (std::vector<std::string>{"lines of '" + path_ + "' wait in memory: File too large",
                                      "'" + path_ + "' lacks 2 lines that a checkpoint counts as written: File too large"}));
  file.finish();
  EXPECT_EQ(text(), "{}\n[]\n[]\n");
}

TEST(LineFile, WarnsOnceWhenLinesCannotBeWritten) {
  std::vector<std::string> warnings;
  LineFile file("/dev/full", [&](std::string_view message) { warnings.emplace_back(message); });
  file.write("{}");
  file.write("{}");
  EXPECT_EQ(warnings, std::vector<std::string>{"lines of '/dev/full' wait in memory: No space left on device"});
}

TEST(LineFile, NamesAFileThatCannotBeMade) {
  EXPECT_MESSAGE(testkit::error_of([&] { const LineFile file("/no/such/folder/lines.jsonl", {}); }).what());
}

// Opening a pipe, or reading a device, may block forever.
TEST(LineFile, RefusesWhatIsNoFile) {
  const std::string pipe = testing::TempDir() + fmt::format("/millrace-lines-{}", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, append] : {std::pair(pipe, false), std::pair(pipe, true), std::pair(std::string("/dev/zero"), true)}) {
    const Error error = testkit::error_of([&] { const LineFile file(path, {}, append); });
    EXPECT_EQ(error.message(), "'" + path + "' cannot be written: it is a pipe, socket or device, not a file; remove it");
  }
  ::unlink(pipe.c_str());
}

}  // namespace
}  // namespace millrace
