// How training would go on many devices and machines, in closed form: steps as one device measured them, and sums of gradients by
// a model of the network.
//
// An all-reduce of S bytes on H hosts of D devices is made in two levels, each as a ring (2 (n - 1) turns, 2 (n - 1) / n * S
// bytes for each member) or, between hosts, as a tree where that is faster (2 log2 H turns, 2 S bytes). A turn costs a latency.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). Buckets are summed
// one after the other, each once it is filled. Steps vary, and a step lasts as long as that of its slowest device.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measurement.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

struct NetworkModel {
  double bandwidth = 12.5e9;     // bytes a second of a host, in each direction
  double latency = 10e-6;        // seconds of a turn between hosts
  double link_bandwidth = 50e9;  // of a device, within its host
  double link_latency = 5e-6;
};

struct ReduceTime {
  double latency = 0, transfer = 0;  // seconds
  double seconds() const { return latency + transfer; }
};
ReduceTime all_reduce_time(double bytes, int devices, int hosts, const NetworkModel& network);

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
  double data_rate = 0;     // images a second that the data stages of a host can prepare; 0: each device brings its own
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
ForecastStep forecast_step(const Measurement& measured, const Measurement* half);

// One device, and so on to all that are asked for, by doubling.
std::vector<ForecastPoint> forecast_table(const ForecastStep& step, ScalingKind kind, const ForecastQuestion& question);
std::string forecast_text(const ForecastStep& step, const ForecastQuestion& question);
std::string forecast_csv(const ForecastStep& step, const ForecastQuestion& question);

// The value that N draws of a normal distribution exceed by their maximum on average, in standard deviations.
double mean_maximum(double draws);

}  // namespace millrace
