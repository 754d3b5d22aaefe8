// Sums each graph's step measurements over an epoch.
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

#include "millrace/metrics/class_matrix.h"
#include "millrace/observer.h"
#include "millrace/util/step_result.h"
#include "util/mutex.h"

namespace millrace {

// Sums over steps of a graph.
struct GraphSums {
  std::shared_ptr<const Loss> loss;  // computes metrics from the sums
  StepSums sums;
  double samples = 0;
  std::uint64_t steps = 0;
  std::uint64_t stream_hash = 0;
  std::optional<Shape> output = {};  // the network's, for one sample; may be empty
  void add(const GraphSums& others);
  // Whether no sample had a weight, for example if all were left out. There are no metrics then: a mean over nothing is
  // undefined, and 0 would be the best possible loss.
  bool measured_nothing() const;
  std::vector<Figure> figures(std::size_t most = SIZE_MAX) const;  // at most the first `most`
  std::vector<double> class_matrix() const;                        // empty if the loss has none
  std::optional<ClassTotals> class_totals() const;                 // empty if the loss counts no classes
};

// Sums of all current epochs. Thread-safe.
class EpochSums {
 public:
  explicit EpochSums(std::optional<Shape> output) : output_(std::move(output)) {}

  void add(std::string_view graph, std::uint64_t epoch, const GraphSums& step);
  GraphSums of(std::string_view graph, std::uint64_t epoch) const;
  void restore(std::string_view graph, std::uint64_t epoch, GraphSums sums);  // for a resumed run
  void forget(std::string_view graph, std::uint64_t epoch);
  // Waits until the epoch has that many steps, but at most `most`. Returns their number.
  std::uint64_t await(std::string_view graph, std::uint64_t epoch, std::uint64_t steps, std::chrono::milliseconds most) const;

  // Metrics that sinks report for the current pass; taken at its end. Of several with one name the first is kept.
  void add_figure(std::string_view graph, const Figure& figure);
  std::vector<Figure> take_figures(std::string_view graph);

  // Discards measurements of a pass that was stopped or only tried. All processes call it, while none runs the graph.
  void begin_pass(std::string_view graph);
  std::uint64_t passes(std::string_view graph) const;  // passes begun

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
