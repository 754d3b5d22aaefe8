#include "millrace/json_lines.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "millrace/error.h"

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
  EXPECT_EQ(JsonLine().add("path", std::string("a\xff.jpg")).text(), "{\"path\":\"a\xef\xbf\xbd.jpg\"}");
  EXPECT_EQ(JsonLine().add("loss", std::numeric_limits<double>::quiet_NaN()).text(), R"({"loss":null})");
}

TEST(LineFile, HasEachLineWhenItIsWritten) {
  const std::string path = testing::TempDir() + "lines.jsonl";
  LineFile file(path, [](std::string_view message) { ADD_FAILURE() << message; });
  file.write("{}");
  file.write(R"({"a":1})");
  std::ifstream stream(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "{}\n{\"a\":1}\n");
  std::filesystem::remove(path);
}

TEST(LineFile, AppendsBehindTheLastWholeLine) {
  const std::string path = testing::TempDir() + "appended.jsonl";
  for (const std::string before : {"", "{}\n", "{}\n{\"a\":", "{\"a\":"}) {
    std::ofstream(path) << before;
    LineFile(path, {}, true).write("[]");
    std::ifstream stream(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), before.starts_with("{}") ? "{}\n[]\n" : "[]\n");
  }
  std::filesystem::remove(path);
}

TEST(LineFile, WarnsOnceWhenLinesAreLost) {
  std::vector<std::string> warnings;
  LineFile file("/dev/full", [&](std::string_view message) { warnings.emplace_back(message); });
  file.write("{}");
  file.write("{}");
  EXPECT_EQ(warnings, std::vector<std::string>{"lines of '/dev/full' are lost: No space left on device"});
}

TEST(LineFile, NamesAFileThatCannotBeMade) {
  try {
    const LineFile file("/no/such/folder/lines.jsonl", {});
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "'/no/such/folder/lines.jsonl' cannot be written: No such file or directory");
  }
}

}  // namespace
}  // namespace millrace
