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

TEST(ClassMatrix, MeansLeaveOutClassesThatDoNotOccur) {
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

TEST(ClassMatrix, WritesRowsAsCsv) {
  const std::vector<double> counts = {3, 1, 0, 4};
  std::string confusion, classes;
  append_confusion(confusion, "x,", ClassMatrix(counts), {"a,b"});
  append_classes(classes, "", ClassMatrix(counts), {"cat", "dog"});
  EXPECT_EQ(confusion, "x,\"a,b\",\"a,b\",3,0.75\r\nx,\"a,b\",1,1,0.25\r\nx,1,\"a,b\",0,0\r\nx,1,1,4,1\r\n");
  EXPECT_EQ(classes, "cat,4,0.75,1,0.8571428571428571,0.75\r\ndog,4,1,0.8,0.8888888888888888,0.8\r\n");
}

TEST(ClassMatrix, WritesNothingForWhatIsNotDefined) {
  std::string confusion, classes;
  append_classes(classes, "", ClassMatrix(kCounts), {"a", "b", "c"});
  EXPECT_NE(classes.find("c,0,,,,\r\n"), std::string::npos) << classes;
  const std::vector<double> counts = {3, 0, 1, 0, 0, 0, 2, 0, 0};  // 1 neither occurs nor is predicted
  classes.clear();
  append_classes(classes, "", ClassMatrix(counts), {});
  append_confusion(confusion, "", ClassMatrix(counts), {});
  EXPECT_NE(classes.find("1,0,,,,\r\n2,2,0,0,0,0\r\n"), std::string::npos) << classes;
  EXPECT_NE(confusion.find("1,0,0,\r\n1,1,0,\r\n1,2,0,\r\n2,0,2,1\r\n"), std::string::npos) << confusion;
}

}  // namespace
}  // namespace millrace
