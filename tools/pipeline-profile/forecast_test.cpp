#include "forecast.h"

#include <gtest/gtest.h>

#include <chrono>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// 100 images of 1 ms each, and one bucket at the end.
ForecastStep step_of(double bytes) {
  ForecastStep step{.sample_seconds = 1e-3, .batch = 100, .global_batch = 100, .bucket_bytes = {}, .bucket_ready = {}};
  if (bytes > 0) step.bucket_bytes = {bytes}, step.bucket_ready = {1};
  return step;
}

TEST(AllReduce, CostsWhatRingAndTreeCost) {
  const NetworkModel network{.bandwidth = 1e9, .latency = 1e-3, .link_bandwidth = 10e9, .link_latency = 1e-6};
  EXPECT_EQ(all_reduce_time(1e6, 1, 1, network).seconds(), 0);
  EXPECT_DOUBLE_EQ(all_reduce_time(1e9, 1, 4, network).transfer, 1.5);  // 2 * 3/4 of a second
  EXPECT_DOUBLE_EQ(all_reduce_time(1e9, 1, 4, network).latency, 6e-3);
  EXPECT_DOUBLE_EQ(all_reduce_time(1e9, 4, 1, network).transfer, 0.15);
  NetworkModel sockets = network;
  sockets.exchanges_slices = true;
  EXPECT_DOUBLE_EQ(all_reduce_time(1e9, 1, 4, sockets).latency, 2e-3);
  EXPECT_NEAR(all_reduce_time(1e9, 1, 4, sockets).transfer, 1.5 / 0.9415, 1e-3) << "frames and headers take a part";
  EXPECT_DOUBLE_EQ(all_reduce_time(1e3, 1, 64, network).latency, 12e-3);  // 2 log2 64 turns of a tree, and not 126 of a ring
}

TEST(Forecast, IsPerfectWhereNothingIsSummed) {
  const ForecastPoint point = forecast(step_of(0), ScalingKind::weak, 8, 32, {});
  EXPECT_EQ(point.devices, 256);
  EXPECT_NEAR(point.images_per_second, 256'000, 1);
  EXPECT_DOUBLE_EQ(point.efficiency, 1);
  EXPECT_EQ(point.bound_by, "computation");
}

TEST(Forecast, HidesWhatIsSummedWhileBackwardComputes) {
  const NetworkModel network{.bandwidth = 1e9, .latency = 0};
  ForecastStep step = step_of(100e6);
  const ForecastPoint shown = forecast(step, ScalingKind::weak, 1, 2, network);
  EXPECT_DOUBLE_EQ(shown.step_seconds, 0.2);  // 2 * 1/2 * 0.1 s after 0.1 s
  EXPECT_DOUBLE_EQ(shown.hidden, 0);
  EXPECT_EQ(shown.bound_by, "bandwidth");
  step.bucket_bytes = {50e6, 50e6};
  step.bucket_ready = {0.5, 1};
  const ForecastPoint half = forecast(step, ScalingKind::weak, 1, 2, network);
  EXPECT_DOUBLE_EQ(half.step_seconds, 0.15);
  EXPECT_DOUBLE_EQ(half.hidden, 0.5);
}

TEST(Forecast, OfStrongScalingEndsWithTheFixedCostOfAStep) {
  ForecastStep step = step_of(0);
  step.fixed_seconds = 10e-3;
  const ForecastPoint point = forecast(step, ScalingKind::strong, 10, 1, {});
  EXPECT_DOUBLE_EQ(point.batch, 10);
  EXPECT_DOUBLE_EQ(point.step_seconds, 20e-3);
  EXPECT_NEAR(point.efficiency, 0.55, 1e-9);
  step.fixed_doubt = 10e-3;
  const ForecastPoint doubtful = forecast(step, ScalingKind::strong, 10, 1, {});
  EXPECT_LT(doubtful.low, 0.8 * point.images_per_second);
  EXPECT_GT(doubtful.high, 1.5 * point.images_per_second);
  step.batch = 50;  // of two devices: one device's batch exceeds the measured one
  const ForecastPoint one = forecast(step, ScalingKind::strong, 1, 1, {});
  EXPECT_LT(one.low, one.images_per_second);
  EXPECT_GT(one.high, one.images_per_second);
}

TEST(Forecast, GivesDevicesWholeImages) {
  ForecastStep step = step_of(0);
  step.batch = step.global_batch = 20;
  const ForecastPoint point = forecast(step, ScalingKind::strong, 16, 1, {});
  EXPECT_DOUBLE_EQ(point.batch, 2);
  EXPECT_DOUBLE_EQ(point.images_per_second * point.step_seconds, 20);
  EXPECT_NE(forecast_text(step, {.devices = 64, .network = {}}).find("20 images are too few for more devices\n"),
            std::string::npos);
  EXPECT_EQ(forecast_text(step, {.devices = 20, .network = {}}).find("too few"), std::string::npos);
}

TEST(Forecast, SaysThatTheMachineWasBusy) {
  ForecastStep step = step_of(0);
  const std::string said = "other programs used about 1.5 cores meanwhile";
  EXPECT_EQ(forecast_text(step, {}).find("other programs"), std::string::npos);
  step.other_threads = 1.5;
  EXPECT_NE(forecast_text(step, {}).find(said), std::string::npos);
}

TEST(Forecast, WaitsForTheSlowestDeviceAndForData) {
  EXPECT_EQ(mean_maximum(1), 0);
  EXPECT_NEAR(mean_maximum(2), 0.564, 0.03);  // 1 / sqrt(pi)
  EXPECT_NEAR(mean_maximum(100), 2.508, 0.02);
  ForecastStep step = step_of(0);
  step.spread = 0.1;
  EXPECT_EQ(forecast(step, ScalingKind::weak, 100, 1, {}).bound_by, "the slowest device");
  step.data_rate = 5'000;
  const ForecastPoint starved = forecast(step, ScalingKind::weak, 100, 1, {});
  EXPECT_DOUBLE_EQ(starved.images_per_second, 5'000);
  EXPECT_EQ(starved.bound_by, "data");
  EXPECT_LT(starved.low, 5'000);
}

TEST(Forecast, OfThousandsOfDevicesTakesNoTime) {
  ForecastStep step = step_of(0);
  step.bucket_bytes.assign(50, 4e6);
  step.bucket_ready.assign(50, 0.8);
  const auto start = std::chrono::steady_clock::now();
  const std::string text = forecast_text(step, parse_forecast("devices=8,hosts=313,network=100Gb/s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_NE(text.find("    2504    313"), std::string::npos) << text;
}

TEST(Forecast, NamesTheNearestKey) {
  EXPECT_MESSAGE(testkit::error_of([&] { parse_forecast("device=8"); }).message());
}

TEST(Forecast, RefusesMoreDevicesThanItCanCount) {
  EXPECT_EQ(parse_forecast("devices=1000,hosts=1000000").hosts, 1'000'000);
  EXPECT_THROW(parse_forecast("devices=1000000,hosts=1000000"), Error);
}

TEST(BucketReady, IsWhenBackwardHasReachedTheFirstLayerOfABucket) {
  Network network;
  for (int i = 0; i < 2; ++i) {
    Layer& layer = network.layers.emplace_back();
    layer.name = i == 0 ? "first" : "last";
    layer.multiply_adds = 100;
    layer.parameters = {i};
  }
  const std::vector<Bucket> buckets = {{.parameters = {1}, .offsets = {}}, {.parameters = {0}, .offsets = {}}};
  EXPECT_EQ(bucket_ready(network, buckets, {}), (std::vector<double>{4.0 / 6, 1}));
  const std::vector<LayerTime> times = {{"first", "", 1, 1, 1}, {"last", "", 1, 7, 1}};
  EXPECT_EQ(bucket_ready(network, buckets, times), (std::vector<double>{0.9, 1}));
}

}  // namespace
}  // namespace millrace
