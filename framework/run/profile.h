// Why is it slow: the figures of a run as a table, and the stage that bounds it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "millrace/backend/backend.h"

namespace millrace {

// Collects figures while a graph runs. Not thread-safe.
class Profile {
 public:
  void add(const Graph::Figures& figures);  // one look, at regular times

  struct StageRow {
    std::string name;
    bool on_device = false;  // it submits and returns: what is measured is the device's work
    double alone = 0;        // samples a second of one thread, or of the device, without any waiting; 0: it handles no samples
    double in_pipeline = 0;  // samples a second, of the whole run
    double busy = 0;         // threads at work in it on average, or the share of time in which the device is
    double waiting = 0;      // seconds a packet waited in front of it, on average
    double level = 0;        // packets in front of it, on average
    double packets = 0;
  };
  std::vector<StageRow> rows(double seconds) const;

  // "read", "the device", ...: what the run would have to be faster at.
  std::string bound_by(double seconds, int threads, int io_threads) const;

  std::string text(double seconds, int threads, int io_threads) const;

 private:
  Graph::Figures last_;
  std::vector<double> level_sums_;  // by edge
  std::size_t looks_ = 0;
};

// A line for each layer, in milliseconds a pass: all in their order, or the `most` that cost most.
std::string layer_table(std::vector<LayerTime> times, std::size_t most = 0);

}  // namespace millrace
