#include "measurement.h"

#include <algorithm>
#include <cmath>

#include "graph/chunk_size.h"

namespace millrace {
namespace {

constexpr double kMostSpread = 2;  // of one sample: what is measured beyond that is the machine's unrest

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

double data_spread(const std::vector<Look>& windows) {
  std::vector<double> busy, samples;
  for (const Look& window : windows) {
    double seconds = 0;
    for (std::size_t s = 1; s < window.stages.size(); ++s) seconds += window.stages[s].busy;
    busy.push_back(seconds);
    samples.push_back(static_cast<double>(window.stages.back().samples));
  }
  return std::min(spread_of(busy, samples), kMostSpread);
}

double step_spread(const std::vector<Look>& windows) {
  std::vector<double> seconds, steps;
  for (const Look& window : windows) {
    seconds.push_back(window.device_seconds);
    steps.push_back(window.steps);
  }
  return std::min(spread_of(seconds, steps), kMostSpread);
}

double data_busy(const Look& sum) {
  double busy = 0;
  for (std::size_t s = 1; s < sum.stages.size(); ++s) busy += sum.stages[s].busy;
  return busy;
}

// How our threads that wanted cores got them, and how many did on average.
struct CoreShare {
  double share = 1;
  double wanted = 0;
};
CoreShare core_share(const RunFacts& facts, const Look& sum) {
  CoreTime ours = sum.io;
  if (facts.devices.threads > 0) ours += sum.device;
  // Data threads without work look for some, on a core that they would leave: only what they do in stages counts.
  const double busy = data_busy(sum), computing = sum.data.seconds > 0 ? std::min(sum.data.seconds, busy) : busy;
  ours += {computing, busy - computing};
  return {ours.share(), ratio(ours.seconds + ours.waited, sum.at)};
}

// How many threads of other programs must want a core on average, for our threads to get the share of the cores that they got.
double other_threads(const RunFacts& facts, const CoreShare& cores) {
  constexpr double kUnseen = 0.97;  // a share that is as good as all
  return cores.share > kUnseen ? 0 : std::max(0.0, facts.cores / cores.share - cores.wanted);
}

SimulatedData data_of(const RunFacts& facts, const std::vector<Look>& windows, const Look& sum, double share) {
  SimulatedData data{.io_threads = facts.io_threads, .threads = facts.threads, .batch = facts.batch, .buffers = facts.buffers};
  const Look::Stage& read = sum.stages.front();
  const auto samples = static_cast<double>(read.samples);
  const double runnable = std::min(sum.io.seconds + sum.io.waited, read.busy);
  data.read_seconds = share * ratio(runnable, samples);
  data.storage_seconds = ratio(read.busy - runnable, samples);
  for (std::size_t s = 1; s < sum.stages.size(); ++s) {
    const Look::Stage& stage = sum.stages[s];
    data.stages.push_back(
        {facts.stages[s].name, share * ratio(stage.busy, static_cast<double>(stage.samples)), facts.stages[s].serial});
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

// A thread that has ended takes its time with it.
CoreTime& CoreTime::operator-=(const CoreTime& other) {
  seconds = std::max(0.0, seconds - other.seconds);
  waited = std::max(0.0, waited - other.waited);
  return *this;
}

double Measurement::images_per_second() const {
  return ratio(facts.batch * (looks.back().steps - looks.front().steps), seconds());
}

std::vector<Look> windows_of(const Measurement& measured) {
  std::vector<Look> windows;
  for (std::size_t i = 1; i < measured.looks.size(); ++i) {
    Look window = measured.looks[i];
    const Look& before = measured.looks[i - 1];
    window.at -= before.at;
    window.steps -= before.steps;
    for (std::size_t s = 0; s < window.stages.size(); ++s) {
      window.stages[s].busy -= before.stages[s].busy;
      window.stages[s].packets -= before.stages[s].packets;
      window.stages[s].samples -= before.stages[s].samples;
    }
    window.submit_seconds -= before.submit_seconds;
    window.device_seconds -= before.device_seconds;
    window.device_samples -= before.device_samples;
    window.reduce_seconds -= before.reduce_seconds;
    window.exposed_seconds -= before.exposed_seconds;
    window.waited_for_data -= before.waited_for_data;
    window.io -= before.io;
    window.data -= before.data;
    window.device -= before.device;
    windows.push_back(std::move(window));
  }
  return windows;
}

Look sum_of(const std::vector<Look>& windows) {
  Look sum;
  for (const Look& window : windows) {
    sum.at += window.at;
    sum.steps += window.steps;
    sum.stages.resize(window.stages.size());
    for (std::size_t s = 0; s < window.stages.size(); ++s) {
      sum.stages[s].busy += window.stages[s].busy;
      sum.stages[s].packets += window.stages[s].packets;
      sum.stages[s].samples += window.stages[s].samples;
    }
    sum.submit_seconds += window.submit_seconds;
    sum.device_seconds += window.device_seconds;
    sum.device_samples += window.device_samples;
    sum.reduce_seconds += window.reduce_seconds;
    sum.exposed_seconds += window.exposed_seconds;
    sum.waited_for_data += window.waited_for_data;
    sum.io += window.io;
    sum.data += window.data;
    sum.device += window.device;
  }
  return sum;
}

std::uint32_t chunk_for(const RunFacts& facts, const SimulatedData& data) {
  if (facts.chunk > 0) return std::min(facts.chunk, data.batch);
  double seconds = 0;
  for (const SimulatedStage& stage : data.stages) seconds += stage.seconds;
  return flow::automatic_chunk(seconds, data.batch, data.threads);
}

double fixed_share_of(const Measurement& whole, const Measurement& smaller) {
  const auto seconds_of = [](const Measurement& each) {
    const SimulatedStep step = graph_of(each.facts, windows_of(each)).step;
    return step.fixed_seconds + step.sample_seconds * each.facts.batch / step.replicas;
  };
  const double seconds = seconds_of(whole), part = seconds_of(smaller);
  const double batch = whole.facts.batch, smaller_batch = smaller.facts.batch;
  if (smaller_batch >= batch || seconds <= 0) return 0;
  const double of_none = part - (seconds - part) * smaller_batch / (batch - smaller_batch);
  return std::clamp(of_none / seconds, 0.0, 0.9);
}

SimulatedGraph graph_of(const RunFacts& facts, const std::vector<Look>& windows) {
  const Look sum = sum_of(windows);
  const CoreShare cores = core_share(facts, sum);
  SimulatedGraph graph;
  graph.cores = facts.cores;
  graph.other_threads = other_threads(facts, cores);
  graph.data = data_of(facts, windows, sum, cores.share);
  graph.step.replicas = facts.devices.replicas;
  if (facts.devices.replicas == 0) return graph;
  graph.step.load = facts.devices.load;
  graph.step.submits_ahead = facts.devices.submits_ahead;
  graph.step.sample_seconds = ratio(sum.device_seconds, static_cast<double>(sum.device_samples));
  if (facts.devices.threads > 0) {
    const double runnable = ratio(sum.device.seconds + sum.device.waited, sum.device_seconds);
    // Some of a replica's threads sleep where the others compute alone.
    graph.step.device_threads = runnable > 0 ? std::clamp<double>(runnable, 0.5, facts.devices.threads) : facts.devices.threads;
    graph.step.sample_seconds *= cores.share;
  }
  const double share = static_cast<double>(facts.batch) / facts.devices.replicas;
  graph.step.fixed_seconds = facts.devices.fixed_share * graph.step.sample_seconds * share;
  graph.step.sample_seconds *= 1 - facts.devices.fixed_share;
  graph.step.submit_seconds = cores.share * ratio(sum.submit_seconds, sum.steps * facts.devices.replicas);
  graph.step.spread = step_spread(windows);
  return graph;
}

}  // namespace millrace
