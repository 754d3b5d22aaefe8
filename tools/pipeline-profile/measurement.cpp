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
    steps.push_back(static_cast<double>(window.step));
  }
  return std::min(spread_of(seconds, steps), kMostSpread);
}

SimulatedData data_of(const RunFacts& facts, const std::vector<Look>& windows, const Look& sum) {
  SimulatedData data{.io_threads = facts.io_threads, .threads = facts.threads, .batch = facts.batch, .buffers = facts.buffers};
  const Look::Stage& read = sum.stages.front();
  const auto samples = static_cast<double>(read.samples);
  const double on_core = std::min(sum.io.seconds, read.busy);
  data.read_seconds = ratio(on_core, samples);
  data.storage_seconds = ratio(std::max(0.0, read.busy - on_core - sum.io.waited), samples);
  double busy = 0;
  for (std::size_t s = 1; s < sum.stages.size(); ++s) busy += sum.stages[s].busy;
  // Threads without work look for some before they sleep, on a core: then these say more than the stages.
  const double measured = sum.data.seconds > 0 ? std::min(1.0, ratio(sum.data.seconds, busy + sum.submit_seconds)) : 1;
  for (std::size_t s = 1; s < sum.stages.size(); ++s) {
    const Look::Stage& stage = sum.stages[s];
    data.stages.push_back(
        {facts.stages[s].name, measured * ratio(stage.busy, static_cast<double>(stage.samples)), facts.stages[s].serial});
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
  return ratio(facts.batch * static_cast<double>(looks.back().step - looks.front().step), seconds());
}

std::vector<Look> windows_of(const Measurement& measured) {
  std::vector<Look> windows;
  for (std::size_t i = 1; i < measured.looks.size(); ++i) {
    Look window = measured.looks[i];
    const Look& before = measured.looks[i - 1];
    window.at -= before.at;
    window.step -= before.step;
    for (std::size_t s = 0; s < window.stages.size(); ++s) {
      window.stages[s].busy -= before.stages[s].busy;
      window.stages[s].packets -= before.stages[s].packets;
      window.stages[s].samples -= before.stages[s].samples;
    }
    window.submit_seconds -= before.submit_seconds;
    window.device_seconds -= before.device_seconds;
    window.device_samples -= before.device_samples;
    window.compute_seconds -= before.compute_seconds;
    window.communication_seconds -= before.communication_seconds;
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
    sum.step += window.step;
    sum.stages.resize(window.stages.size());
    for (std::size_t s = 0; s < window.stages.size(); ++s) {
      sum.stages[s].busy += window.stages[s].busy;
      sum.stages[s].packets += window.stages[s].packets;
      sum.stages[s].samples += window.stages[s].samples;
    }
    sum.submit_seconds += window.submit_seconds;
    sum.device_seconds += window.device_seconds;
    sum.device_samples += window.device_samples;
    sum.compute_seconds += window.compute_seconds;
    sum.communication_seconds += window.communication_seconds;
    sum.waited_for_data += window.waited_for_data;
    sum.io += window.io;
    sum.data += window.data;
    sum.device += window.device;
    sum.other_threads += window.other_threads / static_cast<double>(windows.size());
  }
  return sum;
}

std::uint32_t chunk_for(const RunFacts& facts, const SimulatedData& data) {
  if (facts.chunk > 0) return std::min(facts.chunk, data.batch);
  double seconds = 0;
  for (const SimulatedStage& stage : data.stages) seconds += stage.seconds;
  return flow::automatic_chunk(seconds, data.batch, data.threads);
}

SimulatedGraph graph_of(const RunFacts& facts, const std::vector<Look>& windows) {
  const Look sum = sum_of(windows);
  SimulatedGraph graph;
  graph.cores = facts.cores;
  graph.other_threads = sum.other_threads;
  graph.data = data_of(facts, windows, sum);
  graph.step.replicas = facts.devices.replicas;
  if (facts.devices.replicas == 0) return graph;
  graph.step.load = facts.devices.load;
  graph.step.device_threads = facts.devices.threads;
  graph.step.submits_ahead = facts.devices.submits_ahead;
  const double alone = facts.devices.threads > 0 ? sum.device.share() : 1;
  graph.step.sample_seconds = alone * ratio(sum.device_seconds, static_cast<double>(sum.device_samples));
  graph.step.submit_seconds = ratio(sum.submit_seconds, static_cast<double>(sum.step) * facts.devices.replicas);
  graph.step.spread = step_spread(windows);
  return graph;
}

}  // namespace millrace
