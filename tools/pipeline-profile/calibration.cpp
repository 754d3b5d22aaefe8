#include "calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/chunk_size.h"
#include "prepare/devices.h"

namespace millrace {
namespace {

constexpr double kMaxSpread = 2;  // for one sample: a larger measured value is noise of the machine

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// How much a quantity that grows by `amounts` for `counts` items varies from item to item: standard deviation / mean. Sums over
// windows vary by the root of their items' number.
double spread_of(const std::vector<double>& amounts, const std::vector<double>& counts) {
  double amount = 0, count = 0, squares = 0;
  for (std::size_t i = 0; i < amounts.size(); ++i) amount += amounts[i], count += counts[i];
  if (amounts.size() < 2 || amount <= 0) return 0;
  const double mean = amount / count;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    if (counts[i] > 0) squares += std::pow(amounts[i] - mean * counts[i], 2) / counts[i];
  }
  return std::sqrt(squares / static_cast<double>(amounts.size() - 1)) / mean;
}

double data_spread(const std::vector<Window>& windows) {
  std::vector<double> busy, samples;
  for (const Window& window : windows) {
    double seconds = 0;
    for (std::size_t s = 1; s < window.stages.size(); ++s) seconds += window.stages[s].computing;
    busy.push_back(seconds);
    samples.push_back(static_cast<double>(window.stages.back().samples));
  }
  return std::min(spread_of(busy, samples), kMaxSpread);
}

double step_spread(const std::vector<Window>& windows) {
  std::vector<double> seconds, steps;
  for (const Window& window : windows) {
    seconds.push_back(window.device_seconds);
    steps.push_back(window.steps);
  }
  return std::min(spread_of(seconds, steps), kMaxSpread);
}

// Data threads' time in stages: wall time and core time. In short stages only some packets are measured, so the sum is between
// these threads' core time and the wall time minus all waiting for a core.
struct DataTime {
  double busy = 0, looked = 0;  // `looked`: core time of the measured packets
  double computing = 0;
};
DataTime data_time(const Window& sum) {
  DataTime time;
  for (std::size_t s = 1; s < sum.stages.size(); ++s) time.busy += sum.stages[s].busy, time.looked += sum.stages[s].computing;
  const double most = sum.data.seconds > 0 ? std::min(time.busy, sum.data.seconds) : time.busy;
  time.computing = std::clamp(time.looked, std::clamp(time.busy - sum.data.waited, 0.0, most), most);
  return time;
}

// The fraction of their runnable time in which our threads had a core. Idle data threads search for work on a core that they
// would yield: only their work in stages counts.
double share_of_cores(const RunFacts& facts, const Window& sum) {
  const DataTime data = data_time(sum);
  CoreTime ours = sum.io;
  if (facts.devices.threads > 0) ours += sum.device;
  ours += {data.computing, data.busy - data.computing};
  return ours.share();
}

// The average number of other programs' threads that want a core: as many as would get their share if they waited like ours.
// Excludes other ranks of this run.
double other_threads(const RunFacts& facts, const Window& sum) {
  if (facts.devices.here < facts.devices.replicas) return 0;
  return ratio(sum.other_seconds, sum.seconds * share_of_cores(facts, sum));
}

SimulatedData data_of(const RunFacts& facts, const std::vector<Window>& windows, const Window& sum) {
  SimulatedData data{.io_threads = facts.io_threads, .threads = facts.threads, .batch = facts.batch, .buffers = facts.buffers};
  const Window::Stage& read = sum.stages.front();
  const auto samples = static_cast<double>(read.samples);
  data.read_seconds = ratio(read.computing, samples);
  data.storage_seconds = ratio(std::max(0.0, read.busy - read.computing - sum.io.waited), samples);
  const DataTime time = data_time(sum);
  for (std::size_t s = 1; s < sum.stages.size(); ++s) {
    const Window::Stage& stage = sum.stages[s];
    const double seconds = time.computing * ratio(stage.computing, time.looked);
    data.stages.push_back({facts.stages[s].name, ratio(seconds, static_cast<double>(stage.samples)), facts.stages[s].serial});
  }
  data.spread = data_spread(windows);
  data.chunk = chunk_for(facts, data);
  return data;
}

}  // namespace

CoreTime& CoreTime::operator+=(const CoreTime& other) {
  seconds += other.seconds;
  waited += other.waited;
  return *this;
}

Window& Window::operator+=(const Window& other) {
  seconds += other.seconds;
  steps += other.steps;
  stages.resize(std::max(stages.size(), other.stages.size()));
  for (std::size_t s = 0; s < other.stages.size(); ++s) {
    stages[s].busy += other.stages[s].busy;
    stages[s].packets += other.stages[s].packets;
    stages[s].samples += other.stages[s].samples;
    stages[s].computing += other.stages[s].computing;
  }
  submit_seconds += other.submit_seconds;
  device_seconds += other.device_seconds;
  device_samples += other.device_samples;
  reduce_seconds += other.reduce_seconds;
  exposed_seconds += other.exposed_seconds;
  waited_for_data += other.waited_for_data;
  io += other.io;
  data += other.data;
  device += other.device;
  other_seconds += other.other_seconds;
  return *this;
}

// A thread that ends takes its time with it.
CoreTime& CoreTime::operator-=(const CoreTime& other) {
  seconds = std::max(0.0, seconds - other.seconds);
  waited = std::max(0.0, waited - other.waited);
  return *this;
}

double Calibration::images_per_second() const {
  const Window all = sum();
  return ratio(facts.batch * all.steps, all.seconds);
}

Window Calibration::sum_of(const std::vector<Window>& windows) {
  Window sum;
  for (const Window& window : windows) sum += window;
  return sum;
}

std::uint32_t chunk_for(const RunFacts& facts, const SimulatedData& data) {
  if (facts.chunk > 0) return std::min(facts.chunk, data.batch);
  double seconds = 0;
  for (const SimulatedStage& stage : data.stages) seconds += stage.seconds;
  return flow::automatic_chunk(seconds, data.batch, data.threads);
}

std::string busy_text(double other_threads) {
  if (other_threads <= 0.3) return {};
  return fmt::format("other programs used about {:.1f} cores meanwhile, and are assumed to continue\n", other_threads);
}

double fixed_share_of(const Calibration& whole, const Calibration& smaller) {
  const auto seconds_of = [](const Calibration& each) {
    const SimulatedStep step = graph_of(each.facts, each.windows).step;
    return step.fixed_seconds + step.sample_seconds * each.facts.batch / step.replicas;
  };
  const double seconds = seconds_of(whole), part = seconds_of(smaller);
  const double batch = whole.facts.batch, smaller_batch = smaller.facts.batch;
  if (smaller_batch >= batch || seconds <= 0) return 0;
  const double of_none = part - (seconds - part) * smaller_batch / (batch - smaller_batch);
  return std::clamp(of_none / seconds, 0.0, 0.9);
}

void share_cores_of(SimulatedGraph& graph, bool threads_are_chosen) {
  graph.data.cores.clear(), graph.step.cores.clear();
  if (graph.step.replicas == 0) {
    if (threads_are_chosen) graph.data.threads = graph.cores;
    return;
  }
  std::vector<int> all(static_cast<std::size_t>(graph.cores));
  std::iota(all.begin(), all.end(), 0);
  CoreShares shares =
      share_cores(all, static_cast<std::size_t>(graph.step.replicas), graph.step.load, graph.step.device_threads > 0);
  if (threads_are_chosen) graph.data.threads = shares.data.empty() ? graph.cores : static_cast<int>(shares.data.size());
  graph.data.cores = cores_of_data(shares, static_cast<std::size_t>(graph.data.threads));
  graph.step.cores = std::move(shares.replicas);
}

SimulatedGraph graph_of(const RunFacts& facts, const std::vector<Window>& windows) {
  const Window sum = Calibration::sum_of(windows);
  SimulatedGraph graph;
  graph.cores = facts.cores;
  graph.other_threads = other_threads(facts, sum);
  graph.data = data_of(facts, windows, sum);
  graph.step.replicas = facts.devices.replicas;
  if (facts.devices.replicas == 0) return graph;
  graph.step.load = facts.devices.load;
  graph.step.submits_ahead = facts.devices.submits_ahead;
  const auto samples = static_cast<double>(sum.device_samples);
  graph.step.sample_seconds = ratio(sum.device_seconds, samples);
  if (facts.devices.threads > 0) {
    // Some of a replica's threads sleep while the others compute alone.
    const double runnable = ratio(sum.device.seconds + sum.device.waited, sum.device_seconds);
    graph.step.device_threads = runnable > 0 ? std::clamp<double>(runnable, 0.5, facts.devices.threads) : facts.devices.threads;
    if (runnable > 0) graph.step.sample_seconds = ratio(sum.device.seconds, graph.step.device_threads * samples);
  }
  const double share = static_cast<double>(facts.batch) / facts.devices.replicas;
  graph.step.fixed_seconds = facts.devices.fixed_share * graph.step.sample_seconds * share;
  graph.step.sample_seconds *= 1 - facts.devices.fixed_share;
  graph.step.submit_seconds = ratio(sum.submit_seconds, sum.steps * facts.devices.here);
  graph.step.spread = step_spread(windows);
  share_cores_of(graph, false);
  return graph;
}

}  // namespace millrace
