// Predicts a pipeline with other threads, devices, storage or images: questions, and answers by simulation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "simulation.h"

namespace millrace {

// "threads=4,device=2x,decode=1.5x,image=256": simultaneous changes.
//
//   threads, io_threads, buffers, chunk, batch, cores, replicas   a whole number; chunk may be "auto"
//   device, storage, or a stage                                   speed factor: 2x, 0.5x
//   storage_latency                                               an I/O thread's wait per sample: 20ms
//   image                                                         side in pixels of the network's input
//   pack                                                          shorter side in pixels to which files are packed
struct Change {
  std::string key;  // a stage's full name
  double value = 0;
};
struct Question {
  std::string text;
  std::vector<Change> changes;
};

// True if a change divides a step differently, so that its fixed cost matters.
bool divides_steps(const Question& question);

// How steps share the host's cores, measured or as in the question; empty if the question does not change it.
StepShare share_of(const RunFacts& facts);  // as measured
std::optional<StepShare> asked_share(const Question& question, const RunFacts& facts);

// Throws Error(usage) for an unknown key or value, with the nearest key. A stage may be abbreviated to an unambiguous beginning
// of its name.
Question parse_question(std::string_view text, const RunFacts& facts);

// The graph with the changes. `doubt`: the uncertainty factor of its work if the change does not determine how much is saved; 1:
// none.
struct ChangedGraph {
  SimulatedGraph graph;
  double doubt = 1;
};
ChangedGraph changed(const Question& question, const RunFacts& facts, SimulatedGraph graph);

struct Prediction {
  double images_per_second = 0;
  double low = 0, high = 0;  // 90 % interval
  std::string bound_by;
};

// Answers from one measurement: the measured rate times the simulated gain. The measurement is divided into consecutive parts.
// Differences between the parts' answers, and the simulation's error for each, widen the band.
class Predictor {
 public:
  explicit Predictor(const Calibration& measured);

  double measured() const { return measured_; }
  double measured_band() const { return band_; }  // 90 % interval, +-
  double simulated() const { return simulated_; }
  std::string bound_by() const { return bound_by_; }
  double simulation_error() const { return simulated_ / measured_ - 1; }

  Prediction predict(const Question& question) const;
  double rate(const Question& question) const;  // like predict(), but faster

 private:
  struct Part {
    SimulatedGraph graph;
    double measured = 0, simulated = 0;
  };
  const RunFacts& facts_;
  SimulatedGraph today_;
  std::uint64_t steps_;
  double measured_ = 0, band_ = 0, simulated_ = 0;
  std::string bound_by_;
  std::vector<Part> parts_;
};

struct Suggestion {
  std::string question, text;  // "threads=4", "four data threads"
};
// Changes that a user could make, whether they help or not.
std::vector<Suggestion> suggestions(const RunFacts& facts);

// "device", "reading", "decode_image", ...: the resource that is always busy. `graph` gave `result`.
std::string bound_of(const SimulatedGraph& graph, const Simulated& result);

// The measurement and its simulation, an answer to each question, and what would help, best first.
std::string what_if_text(const Calibration& measured, const std::vector<std::string>& questions, bool suggests);

}  // namespace millrace
