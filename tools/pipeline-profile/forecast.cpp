#include "forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "simulation.h"
#include "values.h"
#include "what_if.h"

namespace millrace {
namespace {

constexpr double kNetworkDoubt = 0.2;  // relative uncertainty of bandwidth and latency
constexpr double kLeastError = 0.03;

// Quantile of the normal distribution: bisection of erfc, which is monotonic.
double normal_quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2)) < probability ? low : high) = middle;
  }
  return low;
}

// Sequential sums, each from the time its bucket is filled.
struct Sums {
  double end = 0;  // from the start of the step
  ReduceTime all;
};
NetworkModel network_of(const ForecastStep& step, NetworkModel network) {
  network.exchanges_slices = step.exchanges_slices;
  return network;
}
Sums sums_of(const ForecastStep& step, double computation, int devices, int hosts, const NetworkModel& asked) {
  const NetworkModel network = network_of(step, asked);
  Sums sums;
  for (std::size_t b = 0; b < step.bucket_bytes.size(); ++b) {
    const ReduceTime time = all_reduce_time(step.bucket_bytes[b], devices, hosts, network);
    sums.end = std::max(sums.end, step.bucket_ready[b] * computation) + time.seconds();
    sums.all.latency += time.latency;
    sums.all.transfer += time.transfer;
  }
  return sums;
}

double images_of(const ForecastStep& step, ScalingKind kind, const ForecastPoint& point) {
  return kind == ScalingKind::weak ? step.batch * point.devices : step.global_batch;
}

// Without the uncertainty band.
ForecastPoint point_of(const ForecastStep& step, ScalingKind kind, int devices_per_host, int hosts, const NetworkModel& network) {
  ForecastPoint point{.devices = devices_per_host * hosts, .hosts = hosts, .bound_by = "computation"};
  // Images are not divisible: a step ends with a device that has the most of them.
  point.batch = kind == ScalingKind::weak ? step.batch : std::ceil(step.global_batch / point.devices);
  const double alone = step.fixed_seconds + step.sample_seconds * point.batch;
  const double slowest = alone * (1 + step.spread * mean_maximum(point.devices));
  const Sums sums = sums_of(step, slowest, devices_per_host, hosts, network);
  const double shown = std::max(0.0, sums.end - slowest);
  point.reduce_seconds = sums.all.seconds();
  point.hidden = point.reduce_seconds > 0 ? std::max(0.0, 1 - shown / point.reduce_seconds) : 1;
  point.step_seconds = slowest + shown;
  if (shown > 0.05 * alone) point.bound_by = sums.all.latency > sums.all.transfer ? "latency" : "bandwidth";
  if (slowest - alone > std::max(shown, 0.05 * alone)) point.bound_by = "the slowest device";
  const double data_rate = step.data_rate * hosts;
  const double images = images_of(step, kind, point);
  if (data_rate > 0 && images / point.step_seconds > data_rate) {
    point.step_seconds = images / data_rate;
    point.bound_by = "data";
  }
  point.images_per_second = images / point.step_seconds;
  return point;
}

std::vector<ForecastPoint> sizes_of(const ForecastQuestion& question) {
  std::vector<ForecastPoint> sizes;
  for (int devices = 1; devices < question.devices; devices *= 2)
    sizes.push_back({.devices = devices, .hosts = 1, .bound_by = {}});
  for (int hosts = 1; hosts < question.hosts; hosts *= 2) {
    sizes.push_back({.devices = question.devices, .hosts = hosts, .bound_by = {}});
  }
  sizes.push_back({.devices = question.devices, .hosts = question.hosts, .bound_by = {}});
  return sizes;
}

const char* name_of(ScalingKind kind) { return kind == ScalingKind::weak ? "weak" : "strong"; }

}  // namespace

double mean_maximum(double draws) {  // Blom's approximation
  return draws <= 1 ? 0 : normal_quantile((draws - 0.375) / (draws + 0.25));
}

std::vector<double> bucket_ready(const Network& network, std::span<const Bucket> buckets, std::span<const LayerTime> times) {
  std::vector<double> forward, backward;
  for (const Layer& layer : network.layers) {
    const auto work = static_cast<double>(layer.multiply_adds);
    const auto timed = std::ranges::find(times, layer.name, &LayerTime::layer);
    forward.push_back(times.empty() ? work : timed == times.end() ? 0 : timed->forward);
    backward.push_back(times.empty() ? 2 * work : timed == times.end() ? 0 : timed->backward);
  }
  const double before = std::accumulate(forward.begin(), forward.end(), 0.0);
  const double all = before + std::accumulate(backward.begin(), backward.end(), 0.0);
  std::vector<double> ready;
  for (const Bucket& bucket : buckets) {
    std::size_t first = network.layers.size();  // the layer of the bucket that backward reaches last
    for (const int parameter : bucket.parameters) {
      const auto owns = [&](const Layer& layer) {
        return std::ranges::find(layer.parameters, parameter) != layer.parameters.end();
      };
      const auto layer = std::ranges::find_if(network.layers, owns);
      first = std::min(first, static_cast<std::size_t>(layer - network.layers.begin()));
    }
    const double after = std::accumulate(backward.begin() + static_cast<std::ptrdiff_t>(first), backward.end(), 0.0);
    ready.push_back(all > 0 ? std::max((before + after) / all, ready.empty() ? 0 : ready.back()) : 1);
  }
  return ready;
}

ForecastPoint forecast(const ForecastStep& step, ScalingKind kind, int devices_per_host, int hosts, const NetworkModel& network) {
  ForecastPoint point = point_of(step, kind, devices_per_host, hosts, network);
  const auto with = [&](double slower, double more_fixed) {
    ForecastStep changed = step;
    const double error = std::hypot(step.error, kLeastError);
    const double whole = step.fixed_seconds + step.sample_seconds * step.batch;
    changed.fixed_seconds = std::clamp(step.fixed_seconds + more_fixed * step.fixed_doubt, 0.0, whole);
    changed.sample_seconds = (whole - changed.fixed_seconds) / step.batch;
    for (double* seconds : {&changed.fixed_seconds, &changed.sample_seconds}) *seconds *= 1 + slower * error;
    changed.data_rate *= 1 - slower * error;
    NetworkModel other = network;
    const double factor = std::pow(1 + kNetworkDoubt, slower);
    other.bandwidth /= factor, other.link_bandwidth /= factor, other.latency *= factor, other.link_latency *= factor;
    return point_of(changed, kind, devices_per_host, hosts, other).images_per_second;
  };
  point.low = std::min(with(1, 1), with(1, -1));
  point.high = std::max(with(-1, 1), with(-1, -1));
  const ForecastPoint one = point_of(step, kind, 1, 1, network);
  point.efficiency = point.images_per_second / (one.images_per_second * point.devices);
  return point;
}

ForecastQuestion parse_forecast(std::string_view text) {
  static const std::vector<std::string> kKeys = {"devices", "hosts", "network", "latency", "link", "link_latency"};
  ForecastQuestion question;
  for (const std::string_view part : split_list(text)) {
    const auto [key, value] = split_setting("--forecast", part);
    const std::string what = "--forecast: " + key;
    if (key == "devices") {
      question.devices = static_cast<int>(count_value(what, value));
    } else if (key == "hosts") {
      question.hosts = static_cast<int>(count_value(what, value));
    } else if (!set_network(question.network, "--forecast", key, value)) {
      const auto nearest = nearest_name(key, kKeys);
      fail(ErrorKind::usage, "--forecast: unknown key '{}'; {}", key,
           nearest ? fmt::format("did you mean '{}'?", *nearest) : fmt::format("there are {}", fmt::join(kKeys, ", ")));
    }
  }
  constexpr double kMaxDevices = 1e9;
  if (static_cast<double>(question.devices) * question.hosts > kMaxDevices) {
    fail(ErrorKind::usage, "--forecast: {} devices on each of {} hosts are more than {:g} devices", question.devices,
         question.hosts, kMaxDevices);
  }
  return question;
}

ForecastStep forecast_step(const Calibration& measured, const Calibration* half) {
  const DeviceFacts& devices = measured.facts.devices;
  if (devices.replicas == 0) fail(ErrorKind::usage, "--forecast: graph '{}' uses no device", measured.facts.graph);
  const Predictor predictor(measured);
  SimulatedGraph graph = graph_of(measured.facts, measured.windows);
  ForecastStep step{.spread = graph.step.spread,
                    .error = predictor.measured_band() / predictor.measured(),
                    .batch = static_cast<double>(measured.facts.batch) / devices.replicas,
                    .global_batch = static_cast<double>(measured.facts.batch),
                    .exchanges_slices = devices.threads > 0,
                    .other_threads = graph.other_threads,
                    .bucket_bytes = devices.bucket_bytes,
                    .bucket_ready = devices.bucket_ready};
  const auto seconds_of = [](const Calibration& each) {                                      // per step of a device
    if (each.facts.devices.threads > 0) return each.facts.batch / each.images_per_second();  // includes preparing its data
    return graph_of(each.facts, each.windows).step.sample_seconds * each.facts.batch / each.facts.devices.replicas;
  };
  const double whole = seconds_of(measured);
  if (half != nullptr && half->facts.batch < measured.facts.batch) {
    const double smaller = static_cast<double>(half->facts.batch) / devices.replicas, part = seconds_of(*half);
    const double further = smaller / (step.batch - smaller);  // extrapolated from the two batches to none
    const Predictor of_half(*half);
    step.fixed_seconds = std::clamp(part - (whole - part) * further, 0.0, whole);
    step.fixed_doubt =
        std::hypot(step.error * whole * further, of_half.measured_band() / of_half.measured() * part * (1 + further));
  }
  step.sample_seconds = (whole - step.fixed_seconds) / step.batch;
  if (devices.threads > 0) return step;
  graph.step.replicas = 0;
  step.data_rate = simulate(graph).images_per_second;
  return step;
}

std::vector<ForecastPoint> forecast_table(const ForecastStep& step, ScalingKind kind, const ForecastQuestion& question) {
  std::vector<ForecastPoint> table;
  for (const ForecastPoint& size : sizes_of(question)) {
    if (kind == ScalingKind::strong && size.devices * size.hosts > step.global_batch) break;  // less than one image each
    table.push_back(forecast(step, kind, size.devices, size.hosts, question.network));
  }
  return table;
}

std::string forecast_text(const ForecastStep& step, const ForecastQuestion& question) {
  const NetworkModel& network = question.network;
  std::string text = fmt::format(
      "a device computes {:.0f} images in {:.2f} ms, of which {:.2f} +- {:.2f} ms do not depend on their number\n"
      "steps vary by {:.1f} %; {:.2f} MB of gradients\n"
      "hosts: {:.3g} Gb/s and {:.3g} us between them, {:.3g} GB/s and {:.3g} us within\n",
      step.batch, 1e3 * (step.fixed_seconds + step.sample_seconds * step.batch), 1e3 * step.fixed_seconds, 1e3 * step.fixed_doubt,
      100 * step.spread, 1e-6 * std::accumulate(step.bucket_bytes.begin(), step.bucket_bytes.end(), 0.0),
      network.bandwidth * 8e-9, network.latency * 1e6, network.link_bandwidth * 1e-9, network.link_latency * 1e6);
  text += busy_text(step.other_threads);
  for (const ScalingKind kind : {ScalingKind::weak, ScalingKind::strong}) {
    text += kind == ScalingKind::weak ? fmt::format("\nweak scaling, {:.0f} images a device\n", step.batch)
                                      : fmt::format("\nstrong scaling, {:.0f} images a step\n", step.global_batch);
    text += fmt::format("{:>8} {:>6} {:>12} {:>25} {:>11} {:>10} {:>11} {:>7}  bound by\n", "devices", "hosts", "images/s",
                        "nine times out of ten", "efficiency", "step ms", "all-reduce", "hidden");
    for (const ForecastPoint& point : forecast_table(step, kind, question)) {
      text += fmt::format("{:>8} {:>6} {:>12.0f} {:>25} {:>9.0f} % {:>10.2f} {:>8.2f} ms {:>5.0f} %  {}\n", point.devices,
                          point.hosts, point.images_per_second, fmt::format("{:.0f} to {:.0f}", point.low, point.high),
                          100 * point.efficiency, 1e3 * point.step_seconds, 1e3 * point.reduce_seconds, 100 * point.hidden,
                          point.bound_by);
    }
    if (kind == ScalingKind::strong && step.global_batch < static_cast<double>(question.devices) * question.hosts)
      text += fmt::format("{:.0f} images are too few for more devices\n", step.global_batch);
  }
  return text + "\n" + bucket_text(step.bucket_bytes, question.devices, question.hosts, network_of(step, question.network));
}

std::string forecast_csv(const ForecastStep& step, const ForecastQuestion& question) {
  std::string text =
      "scaling,devices,hosts,batch,images_per_second,low,high,efficiency,step_seconds,reduce_seconds,hidden,bound_by\n";
  for (const ScalingKind kind : {ScalingKind::weak, ScalingKind::strong}) {
    for (const ForecastPoint& point : forecast_table(step, kind, question)) {
      text += fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.4f},{:.6g},{:.6g},{:.4f},{}\n", name_of(kind), point.devices,
                          point.hosts, point.batch, point.images_per_second, point.low, point.high, point.efficiency,
                          point.step_seconds, point.reduce_seconds, point.hidden, point.bound_by);
    }
  }
  return text;
}

}  // namespace millrace
