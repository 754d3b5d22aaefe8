#include "comments.h"

#include <gtest/gtest.h>

#include <sstream>

namespace millrace::architecture {
namespace {

std::vector<int> reflowed(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return reflowed_comments(lines);
}

const std::string kFull(120, 'x');  // a row that fills its line

TEST(Comments, KeepTheirRows) {
  std::string all;
  for (const std::string& finding : check_comments(MILLRACE_SOURCE_DIR)) all += finding + "\n";
  EXPECT_EQ(all, "");
}

TEST(CommentsCheck, SeesWordsThatARowHasLeftOver) {
  EXPECT_EQ(reflowed("//   repeat   " + kFull + "\n//   the\n//            name stands for it\n"), std::vector<int>{2});
  EXPECT_EQ(reflowed("//   repeat   " + kFull + "\n//            the name stands for it\n//   first    that one\n"),
            std::vector<int>{});
}

TEST(CommentsCheck, SeesTwoRowsInOne) {
  EXPECT_EQ(reflowed("//   measure   = \"loss\"    # " + kFull + "\n//   versions batch     = 250      # its size\n"),
            std::vector<int>{2});
  EXPECT_EQ(
      reflowed("//   [train.decode_image]      # and targets\n//   as shrink = \"bicubic\"        # large as their images\n"),
      std::vector<int>{2});
  EXPECT_EQ(reflowed("//   measure   = \"loss\"    # of it\n//   batch     = 250       # its size, with n = 2\n"),
            std::vector<int>{});
}

TEST(CommentsCheck, SeesARowOutOfItsColumns) {
  const std::string row = "//   NormaliseMaxPool     " + kFull.substr(0, 104);
  EXPECT_EQ(reflowed(row + "\n//   ReLU Sums, Backward       backward\n"), std::vector<int>{2});
  EXPECT_EQ(reflowed(row + "\n//   Sums, Backward       backward\n"), std::vector<int>{});
  EXPECT_EQ(reflowed("//   int rows;     // of it\n//   int columns;       // of it\n"), std::vector<int>{})
      << "it was written so";
}

TEST(CommentsCheck, SeesAFragmentInPlaceOfASentence) {
  EXPECT_EQ(fragments({"int a;", "// Of a packet.", "int b;  // Of it", "// The wait", "// Of Mice and Men."}),
            std::vector<int>{2});
}

TEST(CommentsCheck, LeavesParagraphsAndExamplesAlone) {
  EXPECT_EQ(
      reflowed("// " + kFull + " and\n// more. As here:\n//\n//   struct Kernel {\n//     static constexpr int kReads = 3;\n"),
      std::vector<int>{});
}

}  // namespace
}  // namespace millrace::architecture
