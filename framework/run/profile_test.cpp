#include "run/profile.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

Graph::Figures figures(double read_busy, double decode_busy, double waited_for_data, double waited_for_step) {
  Graph::Figures f;
  f.stages = {{"read", -1, read_busy, 100, 1000, {}},
              {"decode", -1, decode_busy, 100, 1000, {}},
              {"forward_backward", 0, 0.01, 10, 1000, {9.5, 950}}};
  f.edges = {{"read", "decode", 100, 0.5, 4}};
  f.waited_for_data_seconds = waited_for_data;
  f.waited_for_step_seconds = waited_for_step;
  return f;
}

TEST(Profile, NamesTheTrainingStepWhenItNeverWaits) {
  Profile profile;
  profile.add(figures(0.1, 0.2, 0.0, 9.0));
  EXPECT_EQ(profile.bound_by(10, 2, 2), "the device");
}

TEST(Profile, NamesTheBusiestDataStageWhenTheTrainingStepWaits) {
  Profile profile;
  profile.add(figures(2.0, 18.0, 8.0, 0.0));
  EXPECT_EQ(profile.bound_by(10, 2, 2), "decode");
  Profile reading;
  reading.add(figures(19.0, 3.0, 8.0, 0.0));
  EXPECT_EQ(reading.bound_by(10, 2, 2), "read");
}

TEST(Profile, ShowsWhatADeviceDoesAndNotHowFastItsWorkIsSubmitted) {
  Profile profile;
  profile.add(figures(0.1, 0.2, 0.0, 9.0));
  const auto row = profile.rows(10).at(2);
  EXPECT_EQ(row.name, "forward_backward[0]");
  EXPECT_TRUE(row.on_device);
  EXPECT_DOUBLE_EQ(row.alone, 100);
  EXPECT_DOUBLE_EQ(row.in_pipeline, 95);
  EXPECT_DOUBLE_EQ(row.busy, 0.95);
  EXPECT_NE(profile.text(10, 2, 2).find("forward_backward[0]  device          100           95      0.95"), std::string::npos)
      << profile.text(10, 2, 2);
}

TEST(Profile, AveragesLevelsOverLooksAndWaitsOverPackets) {
  Profile profile;
  profile.add(figures(1, 2, 1, 0));
  Graph::Figures later = figures(1, 2, 1, 0);
  later.edges[0].level = 0;
  profile.add(later);
  const auto rows = profile.rows(10);
  EXPECT_DOUBLE_EQ(rows[1].level, 2);
  EXPECT_DOUBLE_EQ(rows[1].waiting, 0.005);
  EXPECT_DOUBLE_EQ(rows[1].alone, 500);
  EXPECT_DOUBLE_EQ(rows[1].in_pipeline, 100);
}

}  // namespace
}  // namespace millrace
