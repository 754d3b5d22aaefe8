// Predicts training on many devices and machines in closed form: from one device's measured steps and a network model of gradient
// sums.
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

// When backward has filled each bucket, as a fraction of the time of forward and backward. `times`: by layer, in order; empty:
// assumed proportional to multiply-adds, with a backward pass as costly as two forward passes.
std::vector<double> bucket_ready(const Network& network, std::span<const Bucket> buckets, std::span<const LayerTime> times);

// A step of one device.
struct ForecastStep {
  double fixed_seconds = 0, sample_seconds = 0;
  double fixed_doubt = 0;         // 90 % uncertainty of fixed_seconds, in seconds; the total is known
  double spread = 0;              // standard deviation / mean of steps
  double error = 0;               // 90 % relative uncertainty of the measured time
  double batch = 1;               // per device, currently
  double global_batch = 1;        // over all devices, currently
  bool exchanges_slices = false;  // NetworkModel::exchanges_slices
  double data_rate = 0;           // images per second of a host's data stages; 0: each device has its own
  double other_threads = 0;       // average threads of other programs that wanted a core during the measurement
  std::vector<double> bucket_bytes = {}, bucket_ready = {};
};

struct ForecastPoint {
  int devices = 1, hosts = 1;  // devices over all hosts
  double batch = 0;            // per device
  double images_per_second = 0, low = 0, high = 0;
  double efficiency = 1;  // relative to the ideal multiple of one device
  double step_seconds = 0, reduce_seconds = 0;
  double hidden = 1;          // the fraction of reduce_seconds that overlaps with computation
  std::string bound_by = {};  // "computation", "latency", "bandwidth", "data", "the slowest device"
};
enum class ScalingKind { weak, strong };  // a device's batch stays constant, or the global one
ForecastPoint forecast(const ForecastStep& step, ScalingKind kind, int devices_per_host, int hosts, const NetworkModel& network);

// The value of --forecast: "devices=8,hosts=32,network=100Gb/s,latency=10us,link=50GB/s".
struct ForecastQuestion {
  int devices = 1, hosts = 1;  // devices per host
  NetworkModel network;
};
ForecastQuestion parse_forecast(std::string_view text);

// From `measured`, and from `half`, with half of its batch, which yields a step's fixed cost; may be null.
ForecastStep forecast_step(const Calibration& measured, const Calibration* half);

// One device, then doubling up to the requested number.
std::vector<ForecastPoint> forecast_table(const ForecastStep& step, ScalingKind kind, const ForecastQuestion& question);
std::string forecast_text(const ForecastStep& step, const ForecastQuestion& question);
std::string forecast_csv(const ForecastStep& step, const ForecastQuestion& question);

// The expected maximum of N draws from a normal distribution, in standard deviations.
double mean_maximum(double draws);

}  // namespace millrace
