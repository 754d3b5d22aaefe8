// What the steps of each graph have measured, added up over an epoch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "millrace/metrics/class_matrix.h"
#include "millrace/observer.h"
#include "millrace/util/step_result.h"

namespace millrace {

// Sums over steps of a graph.
struct GraphSums {
  std::shared_ptr<const Loss> loss;  // that makes figures of the sums
  StepSums sums;
  double samples = 0;
  std::uint64_t steps = 0;
  std::uint64_t stream_hash = 0;
  std::optional<Shape> output = {};  // of the network, for one sample; nothing: there is none
  void add(const GraphSums& others);
  // Whether no sample had a weight, as when all were left out. There are no figures then: a mean over nothing is none, and 0
  // would be the best loss of all.
  bool measured_nothing() const;
  std::vector<Figure> figures(std::size_t most = SIZE_MAX) const;  // the first ones
  std::vector<double> class_matrix() const;                        // empty where the loss has none
  std::optional<ClassTotals> class_totals() const;                 // nothing where the loss counts no classes
};

// Those of all epochs under way. Thread-safe.
class EpochSums {
 public:
  explicit EpochSums(std::optional<Shape> output) : output_(std::move(output)) {}

  void add(std::string_view graph, std::uint64_t epoch, const GraphSums& step);
  GraphSums of(std::string_view graph, std::uint64_t epoch) const;
  void restore(std::string_view graph, std::uint64_t epoch, GraphSums sums);  // of a run that goes on
  void forget(std::string_view graph, std::uint64_t epoch);
  // Waits until so many steps of the epoch are there, but no longer than `most`. Returns how many are.
  std::uint64_t await(std::string_view graph, std::uint64_t epoch, std::uint64_t steps, std::chrono::milliseconds most) const;

  // What sinks report of the pass under way; taken once it is over. Of several with one name the first stays.
  void add_figure(std::string_view graph, const Figure& figure);
  std::vector<Figure> take_figures(std::string_view graph);

  // What an earlier pass of the graph has measured, which was stopped or tried, is forgotten. All processes call it, and in none
  // of them the graph runs.
  void begin_pass(std::string_view graph);
  std::uint64_t passes(std::string_view graph) const;  // that have begun

 private:
  std::uint64_t steps_of(std::string_view graph, std::uint64_t epoch) const MILLRACE_REQUIRES(mutex_);

  const std::optional<Shape> output_;
  mutable Mutex mutex_;
  mutable std::condition_variable added_;
  std::map<std::pair<std::string, std::uint64_t>, GraphSums> epochs_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Figure>, std::less<>> figures_ MILLRACE_GUARDED_BY(mutex_);  // by graph
  std::map<std::string, std::uint64_t, std::less<>> passes_ MILLRACE_GUARDED_BY(mutex_);  // by graph
};

}  // namespace millrace
