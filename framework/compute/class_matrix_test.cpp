#include "millrace/metrics/class_matrix.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

const std::vector<double> kCounts = {6, 2, 0, 1, 3, 0, 0, 0, 0};  // the third class does not occur

TEST(ClassMatrix, MakesFiguresOfEachClass) {
  const ClassMatrix matrix(kCounts);
  ASSERT_EQ(matrix.classes(), 3U);
  EXPECT_EQ(matrix.occurring(0), 8);
  EXPECT_EQ(matrix.predicted(0), 7);
  EXPECT_DOUBLE_EQ(matrix.accuracy(0), 0.75);
  EXPECT_DOUBLE_EQ(matrix.precision(1), 0.6);
  EXPECT_DOUBLE_EQ(matrix.f1(1), 6.0 / 9);
  EXPECT_DOUBLE_EQ(matrix.iou(1), 0.5);
  EXPECT_EQ(matrix.iou(2), 0) << "of nothing";
}

TEST(ClassMatrix, MeansLeaveOutClassesThatNeitherOccurNorArePredicted) {
  const ClassMatrix matrix(kCounts);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 9.0 / 12);
  EXPECT_DOUBLE_EQ(matrix.mean_accuracy(), (0.75 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(matrix.mean_iou(), (6.0 / 9 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(matrix.weighted_iou(), (8 * 6.0 / 9 + 4 * 0.5) / 12);
}

TEST(ClassMatrix, NothingHasFiguresOfZero) {
  const std::vector<double> none(4, 0);
  const ClassMatrix matrix(none);
  EXPECT_EQ(matrix.accuracy(), 0);
  EXPECT_EQ(matrix.mean_iou(), 0);
  EXPECT_EQ(matrix.weighted_iou(), 0);
}

// balanced_accuracy_score, and with average="macro", zero_division=0 precision_score, f1_score and jaccard_score: the third class
// neither occurs nor is predicted, the fourth is never right, and the fifth is predicted though it does not occur.
TEST(ClassMatrix, MeansAreThoseOfScikitLearn) {
  const std::vector<double> counts = {5, 1, 0, 2, 1, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<ClassMatrix::Cell> cells = {{0, 0, 5}, {0, 1, 1}, {0, 3, 2}, {0, 4, 1}, {1, 1, 3}, {1, 3, 1}, {3, 0, 2}};
  for (const ClassMatrix& matrix : {ClassMatrix(counts), ClassMatrix(5, cells)}) {
    EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.5333333333333333);
    EXPECT_DOUBLE_EQ(matrix.mean_accuracy(), 0.4351851851851852);
    EXPECT_DOUBLE_EQ(matrix.mean_precision(), 0.3660714285714286);
    EXPECT_DOUBLE_EQ(matrix.mean_f1(), 0.34375);
    EXPECT_DOUBLE_EQ(matrix.mean_iou(), 0.2636363636363636);
    EXPECT_EQ(matrix.count(0, 3), 2);
    EXPECT_EQ(matrix.count(3, 3), 0);
  }
}

TEST(ClassTotals, SayWhichClassIsPredictedForEverything) {
  const auto only = [](const std::vector<double>& totals) { return ClassTotals(totals).only_predicted(); };
  EXPECT_EQ(only({6, 2, 0, 8, 0, 0, 6, 0, 0}), 0U);
  EXPECT_EQ(only({6, 2, 0, 7, 1, 0, 6, 1, 0}), 3U) << "two are predicted";
  EXPECT_EQ(only({0, 8, 0, 0, 8, 0, 0, 8, 0}), 3U) << "there is no other";
  EXPECT_EQ(only({6, 2, 0, 0, 0, 8, 0, 0, 0}), 2U) << "one that does not occur";
}

std::string confusion_of(std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names) {
  std::string text;
  append_confusion(begin, matrix, names, [&](std::string_view rows) { text += rows; });
  return text;
}

TEST(ClassMatrix, LeavesOutPairsOfManyClassesThatNeverOccur) {
  constexpr std::size_t kMany = kMaxWholeClasses + 1;
  const std::vector<ClassMatrix::Cell> cells = {{0, 0, 3}, {0, 200, 1}, {7, 8, 2}};
  std::vector<double> counts(kMany * kMany);
  for (const ClassMatrix::Cell& cell : cells) counts[cell.of * kMany + cell.as] = cell.count;
  const std::string rows = "0,0,3,0.75\r\n0,200,1,0.25\r\n7,8,2,1\r\n";
  EXPECT_EQ(confusion_of("", ClassMatrix(kMany, cells), {}), rows);
  EXPECT_EQ(confusion_of("", ClassMatrix(counts), {}), rows);
}

TEST(ClassMatrix, WritesRowsAsCsv) {
  const std::vector<double> counts = {3, 1, 0, 4};
  const std::string confusion = confusion_of("x,", ClassMatrix(counts), {"a,b"});
  std::string classes;
  append_classes(classes, "", ClassMatrix(counts), {"cat", "dog"});
  EXPECT_EQ(confusion, "x,\"a,b\",\"a,b\",3,0.75\r\nx,\"a,b\",1,1,0.25\r\nx,1,\"a,b\",0,0\r\nx,1,1,4,1\r\n");
  EXPECT_EQ(classes, "cat,4,0.75,1,0.8571428571428571,0.75\r\ndog,4,1,0.8,0.8888888888888888,0.8\r\n");
}

TEST(ClassMatrix, WritesNothingForWhatIsNotDefined) {
  std::string classes;
  append_classes(classes, "", ClassMatrix(kCounts), {"a", "b", "c"});
  EXPECT_NE(classes.find("c,0,,,,\r\n"), std::string::npos) << classes;
  const std::vector<double> counts = {3, 0, 1, 0, 0, 0, 2, 0, 0};  // 1 neither occurs nor is predicted
  classes.clear();
  append_classes(classes, "", ClassMatrix(counts), {});
  const std::string confusion = confusion_of("", ClassMatrix(counts), {});
  EXPECT_NE(classes.find("1,0,,,,\r\n2,2,0,0,0,0\r\n"), std::string::npos) << classes;
  EXPECT_NE(confusion.find("1,0,0,\r\n1,1,0,\r\n1,2,0,\r\n2,0,2,1\r\n"), std::string::npos) << confusion;
}

}  // namespace
}  // namespace millrace
