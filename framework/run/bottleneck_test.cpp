#include "run/bottleneck.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

StageTelemetry host_stage(const std::string& name, const char* threads, double busy) {
  StageTelemetry stage;
  stage.name = name;
  stage.threads = threads;
  stage.busy_seconds = stage.computing_seconds = busy;
  stage.samples = 1000;
  return stage;
}

StageTelemetry device_stage(const std::string& name, int replica, double seconds) {
  StageTelemetry stage;
  stage.name = name;
  stage.replica = replica;
  stage.on_device = true;
  stage.device_seconds = seconds;
  stage.threads = "one";
  return stage;
}

DeviceTelemetry device(double compute, double communication = 0) {
  DeviceTelemetry device;
  device.name = "cpu:0";
  device.compute_seconds = compute;
  device.communication_seconds = communication;
  return device;
}

// Ten seconds on two data and four I/O threads, in which the device computes for `compute` and waits for data for the rest.
TelemetryEvent ten_seconds(double read, double decode, double batch, double compute) {
  TelemetryEvent event;
  event.elapsed_seconds = event.seconds = 10;
  event.data_threads = 2;
  event.io_threads = 4;
  event.stages = {host_stage("read", "io", read), host_stage("decode_image", "workers", decode),
                  host_stage("batch", "one", batch), device_stage("forward_backward", 0, compute)};
  event.devices = {device(compute)};
  event.waited_for_data_seconds = 10 - compute;
  return event;
}

std::string text_of(const TelemetryEvent& event) { return bottleneck_between({}, event).text(); }

TEST(Bottleneck, IsTheStageThatTakesMostOfTheTimeOfTheBusiestThreads) {
  EXPECT_EQ(text_of(ten_seconds(4, 12.2, 1, 6)), "decode_image 61 %, device idle 40 %");
  EXPECT_EQ(text_of(ten_seconds(38, 12.2, 1, 6)), "read 95 %, device idle 40 %");
  EXPECT_EQ(text_of(ten_seconds(4, 4, 9.5, 6)), "batch 95 %, device idle 40 %");  // a serial stage: one thread at a time
}

TEST(Bottleneck, SaysNothingOfDevicesWhereThereAreNone) {
  TelemetryEvent event = ten_seconds(4, 12.2, 1, 0);
  event.devices.clear();
  EXPECT_EQ(text_of(event), "decode_image 61 %");
}

TEST(Bottleneck, IsAStageWhoseThreadsAreTooBusyToSubmitAStep) {
  TelemetryEvent event = ten_seconds(4, 18, 1, 6);
  event.waited_for_data_seconds = 0;  // batches are there
  EXPECT_EQ(text_of(event), "decode_image 90 %, device idle 40 %");
}

TEST(Bottleneck, IsTheDeviceWhereNothingKeepsItFromComputing) {
  TelemetryEvent event = ten_seconds(4, 3, 1, 9.7);
  event.stages.push_back(device_stage("optimizer", 0, 0.4));
  EXPECT_EQ(text_of(event), "forward_backward 97 %, device idle 3 %");
}

TEST(Bottleneck, IsTheDeviceWhereItWorksWhileTheNextStepWaitsForData) {
  TelemetryEvent event = ten_seconds(2, 4, 1, 9.8);
  event.waited_for_data_seconds = 9.6;
  event.waited_for_credit_seconds = 9.5;
  EXPECT_EQ(text_of(event), "forward_backward 98 %, device idle 2 %");
}

TEST(Bottleneck, IsAFreeBatchWhereThreadsIdleAndAllBatchesAreUnderWay) {
  TelemetryEvent event = ten_seconds(2, 4, 1, 5);
  event.waited_for_credit_seconds = 9.5;
  const Bottleneck found = bottleneck_between({}, event);
  EXPECT_EQ(found.kind, Bottleneck::Kind::credit);
  EXPECT_MESSAGE(found.text());
  event.stages[1].busy_seconds = 18;  // with busy threads more batches would not help
  EXPECT_EQ(text_of(event), "decode_image 90 %, device idle 50 %");
}

TEST(Bottleneck, IsTheSumOrTheReplicaThatComesLast) {
  TelemetryEvent event = ten_seconds(1, 1, 1, 5);
  event.waited_for_data_seconds = 0;
  event.devices = {device(5, 4.5), device(5, 4.5)};
  event.stages.push_back(device_stage("allreduce", -1, 6));
  EXPECT_EQ(text_of(event), "allreduce 45 %, device idle 5 %");
  event.devices = {device(5, 4.5), device(9.6)};
  event.stages.push_back(device_stage("forward_backward", 1, 9.6));
  EXPECT_EQ(text_of(event), "forward_backward[1] 96 %, device idle 5 %");
}

TEST(Bottleneck, IsTheRankThatComesLast) {
  TelemetryEvent event = ten_seconds(1, 1, 1, 5);
  event.waited_for_data_seconds = 0;
  event.devices = {device(5, 4.5), device(5, 4.5), device(9.6)};
  event.devices[1].rank = 1;
  event.devices[2].rank = 2;
  EXPECT_EQ(text_of(event), "rank 2 96 %, device idle 5 %");
}

TEST(Bottleneck, IsAnotherRankWhereABatchIsHere) {
  TelemetryEvent event = ten_seconds(1, 1, 1, 2);
  event.waited_for_data_seconds = 0.5;
  event.waited_for_ranks_seconds = 7;
  event.waited_for_credit_seconds = 9;
  EXPECT_MESSAGE(text_of(event));
}

TEST(Bottleneck, IsWhatTheMainGraphStandsStillFor) {
  TelemetryEvent event = ten_seconds(1, 1, 1, 9);
  event.waited_for_data_seconds = 0.5;
  event.stood_still = {{"checkpoint", 0.1}, {"validate", 7}};
  EXPECT_EQ(text_of(event), "validate 70 %, device idle 10 %");
  event.waited_for_data_seconds = 0.1;
  event.stood_still = {{"validate", 1.5}};
  EXPECT_EQ(text_of(event), "forward_backward 90 %, device idle 10 %") << "most of the time it trains";
}

TEST(Bottleneck, IsOfTheTimeBetweenTwoLooks) {
  const TelemetryEvent before = ten_seconds(38, 2, 1, 6);
  TelemetryEvent now = ten_seconds(40, 20, 2, 7);
  now.elapsed_seconds = 20;
  now.waited_for_data_seconds = 13;
  EXPECT_EQ(bottleneck_between(before, now).text(), "decode_image 90 %, device idle 90 %");
  EXPECT_EQ(bottleneck_between(before, before).text(), "");
  EXPECT_EQ(between(before, now).stages[1].samples, 0U);
}

}  // namespace
}  // namespace millrace
