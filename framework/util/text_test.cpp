#include "millrace/util/text.h"

#include <gtest/gtest.h>

#include <utility>

#include "util/characters.h"

namespace millrace {
namespace {

TEST(Utf8Text, EscapesBytesThatAreNoneAndTurnsThemBack) {
  const std::pair<std::string, std::string> cases[] = {
      {"ni\xf1o", "ni\\xf1o"},                                         // Latin-1
      {"\xed\xa0\x80\xc0\xaf\xf5", "\\xed\\xa0\\x80\\xc0\\xaf\\xf5"},  // a surrogate, too long, too large
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {"\\xf1 \xf1", "\\x5cxf1 \\xf1"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(utf8_text(bytes), text);
    EXPECT_EQ(bytes_of(text), bytes);
    EXPECT_EQ(line_text(text), text);
  }
  for (const char* text : {"", "cat 7", "ni\xc3\xb1o", "\xf0\x9f\xa6\x89", "a\nb\x1b", "C:\\data\\x41"}) {
    EXPECT_EQ(utf8_text(text), text);
  }
}

TEST(NameText, TellsEachNameFromEachOther) {
  const std::pair<std::string, std::string> cases[] = {{"lit\xff.jpg", "lit\\xff.jpg"},
                                                       {"lit\\xff.jpg", "lit\\x5cxff.jpg"},
                                                       {"\\x5cxff", "\\x5cx5cxff"},
                                                       {"a\\b\xc3\xb1\\x4", "a\\b\xc3\xb1\\x4"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(name_text(bytes), text);
    EXPECT_EQ(bytes_of(text), bytes);
    EXPECT_EQ(line_text(text), text);
  }
}

TEST(LineText, IsOneLineThatControlsNoTerminal) {
  const std::pair<std::string, std::string> cases[] = {
      {"C:\\x41 ni\xc3\xb1o", "C:\\x41 ni\xc3\xb1o"},
      {"a\x1b]0;x\x07\n", "a\\x1b]0;x\\x07\\x0a"},  // a terminal's title
      {"\xc2\x9b"
       "31m",
       "\\xc2\\x9b"
       "31m"},                                              // a control of eight bits
      {"a\xe2\x80\xaegpj.exe", "a\\xe2\\x80\\xaegpj.exe"},  // right to left
      {"\xe2\x80\x8f\xd7\x90", "\xe2\x80\x8f\xd7\x90"},     // a mark that occurs in Hebrew names
      {std::string("\0", 1), "\\x00"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(line_text(bytes), text);
  EXPECT_EQ(terminal_text("a\tb\n\xf1\x1b[2J\r"), "a\tb\n\\xf1\\x1b[2J\\x0d");
}

TEST(Shown, IsCutBetweenCharacters) {
  EXPECT_EQ(shown("a\x1b[2Jb\n"), "a\\x1b[2Jb\\x0a");
  EXPECT_EQ(shown("ni\xc3\xb1o", 5), "ni\xc3\xb1o");
  EXPECT_EQ(shown("ni\xc3\xb1o", 3), "ni...");
  EXPECT_EQ(shown(std::string(300, '\xb1'), 4), "\\xb1...") << "bytes that are no characters";
}

TEST(Trimmed, IsWithoutWhatOtherProgramsWriteAround) {
  EXPECT_EQ(trimmed("\xef\xbb\xbf\t a b \r\n"), "a b");
  EXPECT_EQ(trimmed(" \n "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(LowerCase, IsThatOfAsciiAlone) { EXPECT_EQ(lower_case("AbZ[@\xc3\x84 7"), "abz[@\xc3\x84 7"); }

TEST(NextLine, KnowsAllThreeEnds) {
  std::string_view text = "a\r\nb\rc\n\nd";
  for (const char* line : {"a", "b", "c", "", "d"}) EXPECT_EQ(next_line(text), line);
  EXPECT_TRUE(text.empty());
}

}  // namespace
}  // namespace millrace
