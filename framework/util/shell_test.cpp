#include "util/shell.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace millrace {
namespace {

// The word as a shell reads it.
std::string read_by_a_shell(const std::string& word) {
  std::FILE* shell = ::popen(("printf %s " + shell_word(word)).c_str(), "r");
  std::string text;
  std::array<char, 256> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), shell)) text.append(piece.data(), count);
  EXPECT_EQ(::pclose(shell), 0) << word;
  return text;
}

TEST(Shell, ReadsEachWordAsItWas) {
  for (const std::string word : {"run.epochs=3", "a b", "it's", "$HOME", "x=[\"a\", 'b']", "cpu*2", "`id`", "a\\b", "~", "a;b",
                                 "#", "{a,b}", "!x", "a\nb", "ä"}) {
    EXPECT_EQ(read_by_a_shell(word), word);
  }
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Shell, LeavesPlainWordsAsTheyAre) {
  EXPECT_EQ(shell_text({"pipeline-run", "a.toml", "--set", "run.epochs=3", "--devices", "cpu*2"}),
            "pipeline-run a.toml --set run.epochs=3 --devices 'cpu*2'");
}

}  // namespace
}  // namespace millrace
