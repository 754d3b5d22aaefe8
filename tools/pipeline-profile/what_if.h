// What a pipeline would do with other threads, devices, storage or images: questions, and answers by simulation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "simulation.h"

namespace millrace {

// "threads=4,device=2x,decode=1.5x,image=256": changes that are made together.
//
//   threads, io_threads, buffers, chunk, batch, cores, replicas   a whole number; chunk may be "auto"
//   device, storage, or a stage                                   how many times as fast: 2x, 0.5x
//   storage_latency                                               what an I/O thread waits for a sample: 20ms
//   image                                                         side in pixels of what the network sees
//   pack                                                          shorter side in pixels to which files are packed
struct Change {
  std::string key;  // a stage's name in full
  double value = 0;
};
struct Question {
  std::string text;
  std::vector<Change> changes;
};

// Whether a change divides a step otherwise, so that it matters what of its time does not depend on its batch.
bool divides_steps(const Question& question);

// How steps share the host's cores, and as the question has it where it changes that; else nothing.
StepShare share_of(const RunFacts& facts);  // as it was measured
std::optional<StepShare> asked_share(const Question& question, const RunFacts& facts);

// Throws Error(usage) for a key or a value that it does not know, with the nearest key. A stage may be called by the beginning of
// its name where no other begins so.
Question parse_question(std::string_view text, const RunFacts& facts);

// The graph with the changes made. `doubt`: the factor by which its work may be more or less where the change does not say how
// much is saved; 1: not at all.
struct ChangedGraph {
  SimulatedGraph graph;
  double doubt = 1;
};
ChangedGraph changed(const Question& question, const RunFacts& facts, SimulatedGraph graph);

struct Prediction {
  double images_per_second = 0;
  double low = 0, high = 0;  // in which it lies nine times of ten
  std::string bound_by;
};

// Answers of one measurement: the measured rate times the simulated gain. The measurement is divided into some parts, one after
// the other. What answers of parts differ by, and what the simulation of each is off by, widen the band.
class Predictor {
 public:
  explicit Predictor(const Calibration& measured);

  double measured() const { return measured_; }
  double measured_band() const { return band_; }  // +-, nine times of ten
  double simulated() const { return simulated_; }
  std::string bound_by() const { return bound_by_; }
  double simulation_error() const { return simulated_ / measured_ - 1; }

  Prediction predict(const Question& question) const;
  double rate(const Question& question) const;  // of predict(), sooner

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
// What a user could change, whether it helps or not.
std::vector<Suggestion> suggestions(const RunFacts& facts);

// "device", "reading", "decode_image", ...: what is busy all the time. `graph` gave `result`.
std::string bound_of(const SimulatedGraph& graph, const Simulated& result);

// The measurement beside its simulation, an answer to each question, and what would help, best first.
std::string what_if_text(const Calibration& measured, const std::vector<std::string>& questions, bool suggests);

}  // namespace millrace
