#include "profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/error.h"
#include "report.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// `seconds` of a run on two data threads and one I/O thread of a machine with eight cores: 100 images per second, each taking
// `decode` seconds of a thread, and 6 ms of the device.
TelemetryEvent after(double seconds, double decode, double waited_for_data) {
  const auto images = static_cast<std::uint64_t>(100 * seconds);
  TelemetryEvent event;
  event.graph = "train";
  event.step = static_cast<std::uint64_t>(10 * seconds);
  event.seconds = event.elapsed_seconds = seconds;
  event.data_threads = 2;
  event.io_threads = 1;
  const auto stage = [&](const char* name, const char* threads, double busy) {
    StageTelemetry row;
    row.name = name;
    row.threads = threads;
    row.packets = event.step;
    row.samples = images;
    row.bytes = images * 1000;
    row.busy_seconds = busy * static_cast<double>(images);
    row.computing_seconds = row.busy_seconds / 2;
    row.service = {{busy, images}};
    event.stages.push_back(row);
  };
  stage("read", "io", 1e-3);
  stage("decode", "workers", decode);
  stage("forward_backward", "one", 1e-5);
  StageTelemetry& step = event.stages.back();
  step.on_device = true;
  step.replica = 0;
  step.device_seconds = 0.6 * seconds;
  event.edges = {{"read", "decode", event.step, 0.005 * static_cast<double>(event.step), 4}};
  DeviceTelemetry device;
  device.name = "cuda:0";
  device.compute_seconds = 0.6 * seconds;
  device.update_seconds = 0.1 * seconds;
  device.memory_bytes = 1000;
  event.devices = {device};
  event.waited_for_data_seconds = waited_for_data * seconds;
  return event;
}

Profile profile(double decode, double waited_for_data) {
  ProfileBuilder builder;
  for (int look = 0; look <= 10; ++look) builder.add(after(look, decode, waited_for_data));
  return builder.build(8);
}

TEST(Profile, HasARowForEachStageWithWhatASampleTakes) {
  const Profile found = profile(19.6e-3, 0.4);
  EXPECT_NEAR(found.rate, 100, 1e-9);
  const Profile::Stage& decode = found.stages.at(1);
  EXPECT_EQ(decode.on, "workers");
  EXPECT_NEAR(decode.here, 100, 1e-9);
  EXPECT_NEAR(decode.alone, 1 / 19.6e-3, 1e-9);
  EXPECT_NEAR(decode.p99, 19.6e-3, 1e-9);
  EXPECT_NEAR(decode.busy, 1.96, 1e-9);
  EXPECT_NEAR(decode.cores, 0.98, 1e-9);
  EXPECT_NEAR(decode.bytes, 1e5, 1e-6);
  EXPECT_NEAR(decode.wait, 0.005, 1e-9);
  EXPECT_NEAR(decode.level, 4, 1e-9);
  EXPECT_EQ(found.stages.at(2).on, "device");
  EXPECT_NEAR(found.stages.at(2).busy, 0.6, 1e-9);
}

// Steps of a second, in which a device computes for a tenth and waits for sums, with measurements between them.
TEST(Profile, CountsStepsFromComputedToComputed) {
  ProfileBuilder builder;
  const auto look = [&](int steps, double computed, double now) {
    TelemetryEvent event = after(steps, 1e-3, 0);
    event.elapsed_seconds = event.seconds = now;
    event.stages.back().counted_at = computed;
    builder.add(event);
  };
  look(1, 0.1, 0.2);
  look(3, 2.1, 2.8);
  look(5, 4.1, 5);
  EXPECT_NEAR(builder.build(8).rate, 100, 1e-9);
}

TEST(Profile, ADeviceThatComputesIsNotIdle) {
  const Profile::Device device = profile(1e-3, 0.4).devices.at(0);
  EXPECT_NEAR(device.forward_backward, 0.5, 1e-9);
  EXPECT_NEAR(device.update, 0.1, 1e-9);
  EXPECT_NEAR(device.idle, 0.4, 1e-9);
}

// Rank 1 reports its device once in three measurements, and so before the last one: relative to rank 0's time the share would
// exceed 1.
TEST(Profile, HasARowForEachRankWithSharesOfWhatItTold) {
  ProfileBuilder builder;
  DeviceTelemetry told;
  for (int look = 0; look <= 10; ++look) {
    TelemetryEvent event = after(look, 1e-3, 0);
    if (look % 3 == 0) {
      told.rank = 1;
      told.compute_seconds = 0.9 * (look + 0.5);  // at the time of the report, later than rank 0's own values
      told.communication_seconds = 0.1 * (look + 0.5);
    }
    event.devices.push_back(told);
    builder.add(event);
  }
  const Profile found = builder.build(8, 0.5);
  EXPECT_NEAR(found.rate, 200, 1e-9) << "of both ranks";
  ASSERT_EQ(found.ranks.size(), 2U);
  EXPECT_NEAR(found.ranks[0].computing, 0.6, 1e-9);
  EXPECT_NEAR(found.ranks[1].computing, 0.9, 1e-9);
  EXPECT_NEAR(found.ranks[1].sums, 0.1, 1e-9);
  EXPECT_NEAR(found.ranks[1].idle, 0, 1e-9);
  EXPECT_NE(report(found).find("2 ranks; "), std::string::npos);
  EXPECT_EQ(to_json(profile_from_json(to_json(found), "a.json")), to_json(found));
}

TEST(Profile, SaysWhichReplicaOthersWaitFor) {
  Profile found;
  found.graph = "train";
  found.bottleneck = {.kind = Bottleneck::Kind::device, .name = "forward_backward", .replica = 0, .share = 0.67};
  found.devices = {{.name = "cpu:0[0]"}, {.name = "cpu:0[1]", .sums = 0.97}};
  const std::string advice = "give replica 0 a smaller share with `load` of [run]: others wait for it for 97 % of the time.";
  EXPECT_NE(summary(found).find(advice), std::string::npos) << summary(found);
  found.devices[0].sums = 0.9;  // they wait for each other
  EXPECT_EQ(summary(found).find("smaller share"), std::string::npos);
}

TEST(Profile, PredictsByAmdahlsLawWhatAChangeWouldGive) {
  const Profile found = profile(19.6e-3, 0.4);
  EXPECT_EQ(found.bottleneck.text(), "decode 98 %, device idle 40 %");
  ASSERT_EQ(found.gains.size(), 1U);
  EXPECT_MESSAGE(found.gains[0].change);
  EXPECT_NEAR(found.gains[0].rate, 150, 1);  // three threads instead of two; the device could do 167
  EXPECT_EQ(found.gains[0].then, "the same");
  const std::string text = summary(found);
  EXPECT_NE(
      text.find("[train] does 100 images/s. Waits for: decode 98 %, device idle 40 %: 98 % of the time of the 2 data threads "
                "is spent in decode."),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("One more data thread would give up to 150 images/s (+50 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("\nWhat to do: raise `threads` of [run], which is 2; the process has 8 cores."), std::string::npos) << text;
}

// A device is equally busy with steps of one image each, and twice the device does not help them.
TEST(Profile, AdvisesALargerBatchWhereAStepHasFewImages) {
  Profile found;
  found.seconds = 10;
  found.bottleneck = {.kind = Bottleneck::Kind::device, .name = "forward_backward", .share = 0.8};
  Profile::Stage& stage = found.stages.emplace_back();
  stage.name = "forward_backward";
  stage.here = 40;
  stage.packets = 200;
  EXPECT_NE(summary(found).find("What to do: try a larger batch first: a step has 2 images on a device"), std::string::npos);
  stage.packets = 5;
  EXPECT_NE(summary(found).find("--layers 10 names the slowest layers"), std::string::npos);
}

TEST(Profile, IsTheSameBehindJson) {
  const Profile found = profile(19.6e-3, 0.4);
  const Profile read = profile_from_json(to_json(found), "a.json");
  EXPECT_EQ(report(read), report(found));
  EXPECT_EQ(to_json(read), to_json(found));
  const Error error = testkit::error_of([&] { profile_from_json("{}", "a.json"); });
  EXPECT_NE(std::string(error.what()).find("'a.json' is not a report of pipeline-profile --json"), std::string::npos);
}

TEST(Profile, IsComparedStageByStage) {
  const std::string text = comparison(profile(19.6e-3, 0.4), profile(9.8e-3, 0.1));
  EXPECT_NE(text.find("decode 98 %, device idle 40 % -> "), std::string::npos) << text;
  EXPECT_NE(text.find("+100 %"), std::string::npos) << text;
}

TEST(Profile, OfNothingSaysSo) {
  EXPECT_TRUE(ProfileBuilder().build(2).stages.empty());
  EXPECT_NE(summary(Profile{}).find("it did nothing that was measured"), std::string::npos);
}

}  // namespace
}  // namespace millrace
