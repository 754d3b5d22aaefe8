#include "table.h"

#include <gtest/gtest.h>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Kind = TableFormat::Kind;
using Rows = std::vector<std::vector<std::string>>;

Rows rows(std::string_view text, Kind kind, const std::vector<std::string>& wanted, const std::vector<std::string>& header = {}) {
  Rows result;
  read_table(text, {kind, header}, "list", wanted, [&](std::span<const Cell> cells) {
    std::vector<std::string>& row = result.emplace_back();
    for (const Cell& cell : cells) row.push_back(cell.text);
  });
  return result;
}

std::string refusal(std::string_view text, Kind kind = Kind::csv, const std::vector<std::string>& wanted = {"a", "b"}) {
  const Error error = testkit::error_of([&] { rows(text, kind, wanted); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  return error.message();
}

const Rows kTwo = {{"1", "x"}, {"2", "y"}};

TEST(Table, ReadsCommasAndTabs) {
  EXPECT_EQ(rows("a,b\n1,x\n2,y\n", Kind::csv, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("a\tb\n1\tx\n2\ty\n", Kind::tsv, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("a,b\n1,x\n2,y", Kind::csv, {"a", "b"}), kTwo);
}

TEST(Table, GivesTheWantedColumnsInTheWantedOrder) { EXPECT_EQ(rows("b,c,a\nx,-,1\ny,-,2\n", Kind::csv, {"a", "b"}), kTwo); }

TEST(Table, TakesCarriageReturnsBlankLinesAndAByteOrderMark) {
  EXPECT_EQ(rows("\xef\xbb\xbf"
                 "a,b\r\n\r\n1,x\r\n\n2,y\r\n",
                 Kind::csv, {"a", "b"}),
            kTwo);
  EXPECT_EQ(rows("\xef\xbb\xbf{\"a\": 1, \"b\": \"x\"}\r\n\r\n{\"a\":2,\"b\":\"y\"}", Kind::json_lines, {"a", "b"}), kTwo);
}

TEST(Table, FindsTheSeparatorByTheColumnsThatAreWanted) {
  for (const Kind kind : {Kind::csv, Kind::tsv}) {
    EXPECT_EQ(rows("b;a\nx;1\ny;2\n", kind, {"a", "b"}), kTwo);
    EXPECT_EQ(rows("a\tb\n1\tx\n2\ty\n", kind, {"a", "b"}), kTwo);
    EXPECT_EQ(rows("a,b\n1,x\n2,y\n", kind, {"a", "b"}), kTwo);
    EXPECT_EQ(rows("1;x\n2;y\n", kind, {"a", "b"}, {"a", "b"}), kTwo);
    EXPECT_EQ(rows("sep=|\r\na|b\r\n1|x\r\n2|y\r\n", kind, {"a", "b"}), kTwo);
  }
  EXPECT_EQ(rows("a;b,b\n1;2,x\n", Kind::csv, {"a;b", "b"}), (Rows{{"1;2", "x"}}));
  EXPECT_MESSAGE(refusal("a;c\n1;x\n"));
}

TEST(Table, LinesEndAsOnOldMacsToo) {
  EXPECT_EQ(rows("a,b\r1,x\r\r2,y\r", Kind::csv, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("a,b\r\"1\r2\",x\r", Kind::csv, {"a", "b"}), (Rows{{"1\r2", "x"}}));
  EXPECT_EQ(rows("{\"a\": 1, \"b\": \"x\"}\r{\"a\": 2, \"b\": \"y\"}\r", Kind::json_lines, {"a", "b"}), kTwo);
  EXPECT_MESSAGE(refusal("a,b\r1,x\r2\r"));
  const std::string long_row = "c" + std::string(5000, 'x');
  EXPECT_LT(refusal(long_row + "\n").size(), 500U);
}

TEST(Table, ReadsQuotedFields) {
  EXPECT_EQ(rows("a,b\n\"1,5\",\"say \"\"hi\"\"\"\n\"two\nlines\",\"\"\n5\"\" disk,x\n", Kind::csv, {"a", "b"}),
            (Rows{{"1,5", "say \"hi\""}, {"two\nlines", ""}, {"5\"\" disk", "x"}}));
}

TEST(Table, BlanksAroundAFieldDoNotCountUnlessTheyAreQuoted) {
  EXPECT_EQ(rows("a , b\n 1 ,x\t\n2, y \r\n", Kind::csv, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("a\t b\n1 \tx\n\ty y\n", Kind::tsv, {"a", "b"}), (Rows{{"1", "x"}, {"", "y y"}}));
  EXPECT_EQ(rows("a,b\n\" 1 \", \"x,\" \n  ,y\n", Kind::csv, {"a", "b"}), (Rows{{" 1 ", "x,"}, {"", "y"}}));
  EXPECT_EQ(rows("a,b\n1,x\n2,y\n,\n ,\n", Kind::csv, {"a", "b"}), kTwo) << "as spreadsheets end their tables";
  EXPECT_EQ(rows(" \na,b\n1,x\n\t \n2,y\n  ", Kind::csv, {"a", "b"}), kTwo);
  EXPECT_MESSAGE(refusal("a,b\n1, \"x\" y\n"));
}

TEST(Table, AColumnMayBeWantedTwice) {
  EXPECT_EQ(rows("a,b\n1,x\n2,y\n", Kind::csv, {"b", "a", "b"}), (Rows{{"x", "1", "x"}, {"y", "2", "y"}}));
  EXPECT_EQ(rows("{\"a\": 1}\n", Kind::json_lines, {"a", "a"}), (Rows{{"1", "1"}}));
}

TEST(Table, ReadsAFileWithoutAHeader) {
  EXPECT_EQ(rows("1,x\n2,y\n", Kind::csv, {"a", "b"}, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("1 x\n2 y\n", Kind::csv, {"a", "b"}, {"a", "b"}), kTwo) << "as in lists of files for Caffe";
}

TEST(Table, ReadsObjectsLineByLine) {
  EXPECT_EQ(rows("{\"a\": 1, \"b\": \"x\", \"c\": [1]}\n{\"b\": \"y\", \"a\": 2}\n", Kind::json_lines, {"a", "b"}), kTwo);
  EXPECT_EQ(rows("{\"a\": 1, \"b\": \"x\", \"c\": {\"a\": 2}, \"d\": [{\"a\": 3}]}", Kind::json_lines, {"a"}), (Rows{{"1"}}));
  EXPECT_EQ(rows("{\"a\": -1.5e-3, \"b\": \"\\u00e4\"}", Kind::json_lines, {"a", "b"}), (Rows{{"-0.0015", "\xc3\xa4"}}));
}

TEST(Table, KnowsWhereACellStands) {
  std::vector<std::string> places;
  read_table("a,b\n\"two\nlines\",x\n1,y\n", {}, "list", {"a", "b"}, [&](std::span<const Cell> cells) {
    for (const Cell& cell : cells) places.push_back(cell.place("list"));
  });
  EXPECT_EQ(places, (std::vector<std::string>{"list:2:1", "list:3:8", "list:4:1", "list:4:3"}));
}

TEST(Table, SaysWhatIsWrongWithColumns) {
  EXPECT_MESSAGE(refusal(""));
  EXPECT_MESSAGE(refusal("file,bb\n"));
  EXPECT_MESSAGE(refusal("file_nam,label\n", Kind::csv, {"file_name"}));
  EXPECT_MESSAGE(refusal("a,b,a\n"));
  EXPECT_MESSAGE(refusal("a,b\n1,2\n1,2,3\n"));
  EXPECT_MESSAGE(refusal("a,b\n1\n"));
  EXPECT_MESSAGE(
      refusal("\xff\xfe"
              "a"));
  EXPECT_MESSAGE(
      refusal(std::string_view("a\0,\0b\0\n\0"
                               "1\0,\0x\0\n\0",
                               16)));
  EXPECT_MESSAGE(refusal("PK\x03\x04"));
  EXPECT_MESSAGE(refusal("\x1f\x8b\x08"));
}

TEST(Table, BoundsTheColumnsOfARow) {
  std::string wide;
  for (int i = 0; i < 100'001; ++i) wide += "x,";
  const std::string said = ": this row has more than 100000 columns: name a list, with a row for each image";
  EXPECT_EQ(refusal(wide + "\n"), "list:1" + said);
  EXPECT_EQ(refusal("a,b\n1,x\n" + wide), "list:3" + said);
}

TEST(Table, SaysWhatIsWrongWithQuotes) {
  EXPECT_MESSAGE(refusal("a,b\n1,\"x\n2,y\n"));
  EXPECT_MESSAGE(refusal("a,b\n1,\"x\"y\n"));
}

TEST(Table, SaysWhatIsWrongWithObjects) {
  const auto message = [](std::string_view text) { return refusal(text, Kind::json_lines); };
  EXPECT_MESSAGE(message("{\"a\": 1, \"b\": 2}\n{\"a\": 1,\n"));
  EXPECT_MESSAGE(message("[1, 2]\n"));
  EXPECT_MESSAGE(message("{\"a\": 1, \"b\": 2e426}\n"));
  EXPECT_MESSAGE(message("{\"a\": 1, \"b\": 2}\n{\"a\": 1, \"b\": 2, \"a\": 3}\n"));
  EXPECT_MESSAGE(message("{\"A\": 1, \"b\": 2}\n"));
  EXPECT_MESSAGE(message("{\"a\": null, \"b\": 2}\n"));
  EXPECT_MESSAGE(message("{\"a\": 1, \"b\": [2]}\n"));
}

}  // namespace
}  // namespace millrace
