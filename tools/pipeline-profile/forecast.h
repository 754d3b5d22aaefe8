// How training would go on many devices and machines, in closed form: steps as one device measured them, and sums of gradients by
// a model of the network.
//
// Buckets are summed one after the other, each once it is filled (all_reduce.h). Steps vary, and a step lasts as long as that of
// its slowest device.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "all_reduce.h"
#include "calibration.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

// When backward has filled each bucket, as a part of the time of forward and backward. `times`: of the layers, in their order;
// empty: taken in proportion to their multiply-adds, with a backward pass that costs two forward passes.
std::vector<double> bucket_ready(const Network& network, std::span<const Bucket> buckets, std::span<const LayerTime> times);

// A step of one device.
struct ForecastStep {
  double fixed_seconds = 0, sample_seconds = 0;
  double fixed_doubt = 0;   // seconds by which fixed_seconds may be more or less, nine times of ten; the sum of both is known
  double spread = 0;        // of steps: standard deviation / mean
  double error = 0;         // of the measured time, relative, nine times of ten
  double batch = 1;         // of one device, today
  double global_batch = 1;  // of all devices, today
  bool exchanges_slices = false;  // NetworkModel::exchanges_slices
  double data_rate = 0;           // images a second that the data stages of a host can prepare; 0: each device brings its own
  double other_threads = 0;       // of other programs that wanted a core while the step was measured, on average
  std::vector<double> bucket_bytes = {}, bucket_ready = {};
};

struct ForecastPoint {
  int devices = 1, hosts = 1;  // devices of all hosts
  double batch = 0;            // of a device
  double images_per_second = 0, low = 0, high = 0;
  double efficiency = 1;  // beside so many times one device
  double step_seconds = 0, reduce_seconds = 0;
  double hidden = 1;          // the part of reduce_seconds during which devices compute
  std::string bound_by = {};  // "computation", "latency", "bandwidth", "data", "the slowest device"
};
enum class ScalingKind { weak, strong };  // the batch of a device stays, or that of all
ForecastPoint forecast(const ForecastStep& step, ScalingKind kind, int devices_per_host, int hosts, const NetworkModel& network);

// What --forecast asks: "devices=8,hosts=32,network=100Gb/s,latency=10us,link=50GB/s".
struct ForecastQuestion {
  int devices = 1, hosts = 1;  // devices of a host
  NetworkModel network;
};
ForecastQuestion parse_forecast(std::string_view text);

// Of `measured`, and of `half`, with half of its batch, for what a step costs whatever its batch; null: nothing.
ForecastStep forecast_step(const Calibration& measured, const Calibration* half);

// One device, and so on to all that are asked for, by doubling.
std::vector<ForecastPoint> forecast_table(const ForecastStep& step, ScalingKind kind, const ForecastQuestion& question);
std::string forecast_text(const ForecastStep& step, const ForecastQuestion& question);
std::string forecast_csv(const ForecastStep& step, const ForecastQuestion& question);

// The value that N draws of a normal distribution exceed by their maximum on average, in standard deviations.
double mean_maximum(double draws);

}  // namespace millrace
