#include "millrace/util/earlier_events.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "testkit/files.h"

namespace millrace {
namespace {

TEST(Retold, TellsAllThatTheFileHolds) {
  const testkit::TestFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl")
      << R"({"event":"start","epochs":2.0,"first_step":1,"steps":8,"elapsed_seconds":0.5}
{"event":"step","epoch":1,"step":3,"loss":null,"accuracy":0.5,"percent":["accuracy"],"higher_is_better":["accuracy"],"learning_rate":0.1,"images_per_second":100.0,"elapsed_seconds":1.5}
{"event":"epoch","epoch":2,"step":4,"loss":0.25,"accuracy":0.75,"images_per_second":120.0,"seconds":2.0,"stream_hash":"fedcba9876543210","resident_bytes":1024,"waits_for":"decode_image 61 %","elapsed_seconds":2.5}
{"event":"validate","graph":"validate","epoch":1.5,"step":4,"samples":130.0,"accuracy":0.5,"best_step":3,"images_per_second":260.0,"seconds":0.5,"stream_hash":"0000000000000def","elapsed_seconds":3.0}
{"event":"epoch","epoch":3,"step":6,"images_per_second":9.0,"seconds":2.0,"resident_bytes":1,"elapsed_seconds":4.5}
)";
  std::vector<StepEvent> steps;
  std::vector<EpochEvent> epochs;
  std::vector<PassEvent> passes;
  send_earlier_events(folder / "metrics.jsonl", {6, 6},
                      {.step = [&](const StepEvent& event) { steps.push_back(event); },
                       .epoch = [&](const EpochEvent& event) { epochs.push_back(event); },
                       .pass = [&](const PassEvent& event) { passes.push_back(event); }});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].epoch, 1U);
  ASSERT_EQ(steps[0].figures.size(), 2U);
  EXPECT_FALSE(steps[0].figures[0].percent);
  EXPECT_TRUE(std::isnan(steps[0].figures[0].value));
  EXPECT_TRUE(steps[0].figures[1].percent && steps[0].figures[1].higher_is_better);
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_EQ(epochs[0].epoch, 2U);
  EXPECT_TRUE(epochs[0].reported);
  EXPECT_EQ(epochs[0].seconds, 2);
  EXPECT_EQ(epochs[0].images_per_second, 120);
  EXPECT_EQ(epochs[0].stream_hash, 0xfedcba9876543210U);
  EXPECT_EQ(epochs[0].resident_bytes, 1024U);
  EXPECT_EQ(epochs[0].waits_for, "decode_image 61 %");
  EXPECT_TRUE(epochs[0].figures.at(1).percent) << "an earlier line of the main graph says it";
  EXPECT_FALSE(epochs[1].reported);
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_EQ(passes[0].seconds, 0.5);
  EXPECT_EQ(passes[0].images_per_second, 260);
  EXPECT_EQ(passes[0].stream_hash, 0xdefU);
  EXPECT_FALSE(passes[0].figures.at(0).percent) << "of another graph";
}

TEST(Retold, CountsStepsAsTodaysBatchesDo) {
  const testkit::TestFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl") << R"({"event":"step","step":5,"loss":5}
{"event":"step","step":15,"loss":4}
{"event":"step","step":16,"loss":9}
{"event":"resume","step":15,"first_step":7}
{"event":"step","step":7,"loss":3}
{"event":"validate","graph":"validate","step":8,"best_step":15,"loss":2}
{"event":"step","step":9,"loss":9}
)";
  std::string told;
  send_earlier_events(
      folder / "metrics.jsonl", {8, 8},
      {.step = [&](const StepEvent& event) { told += fmt::format("{}:{} ", event.step, event.figures.at(0).value); },
       .pass = [&](const PassEvent& event) { told += fmt::format("{}:{} ", event.step, event.figures.at(0).value); }});
  EXPECT_EQ(told, "2:5 6:4 7:3 8:2 ");
  EXPECT_EQ(step_today(3, {0, 0}), std::nullopt);
  EXPECT_EQ(step_today(1, {3, 30}), 10U);
}

}  // namespace
}  // namespace millrace
