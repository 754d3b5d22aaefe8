// A pipeline's scaling over the available devices: runs with 1, 2, 4 ... replicas, measured and predicted, and the time of each
// to reach an accuracy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration_run.h"
#include "forecast.h"
#include "millrace/plugin.h"
#include "rank_group.h"

namespace millrace {

struct ScalingQuestion {
  std::vector<int> replicas;  // ascending
  bool over_ranks = false;    // each replica has a process
  NetworkModel network = {};  // between ranks, for the predictions
  Leave leave = nullptr;      // for the new processes
  double to_accuracy = 0;     // also trains until validation reaches it; 0: does not train
};
// "1,2,4": ascending. Throws Error(usage).
std::vector<int> parse_replicas(std::string_view text);

// Times are averages over steps and replicas.
struct ScalingPoint {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;                 // over all replicas
  double images_per_second = 0, band = 0;  // band: 90 % interval, +-
  double predicted = 0, low = 0, high = 0;
  double efficiency = 1;  // speed relative to the first run's, times its replicas
  double step_seconds = 0;
  double compute_seconds = 0;  // per device: forward, backward, update, copies
  double exposed_seconds = 0;  // a device's wait for sums, or for the slowest replica
  double reduce_seconds = 0;   // time of the sums; 0 if not measured
  double hidden = 1;           // the fraction of reduce_seconds that overlaps with computation

  double hidden_seconds() const { return hidden * reduce_seconds; }
  double other_seconds() const;  // waits for data, or for a thread that submits its work
};

// A validation of a run with this many replicas.
struct AccuracyPoint {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;
  double seconds = 0;  // since training began
  double epoch = 0, accuracy = 0;
};

struct Scaling {
  ScalingQuestion question;
  std::vector<ScalingPoint> points;  // strong, then weak, each in the order of the question's replicas
  std::vector<AccuracyPoint> accuracies;
  std::vector<double> bucket_bytes;
};

// Devices for this many replicas, of the same kind as `backend`: "cpu*4", "cuda:0,1,2,3".
std::string devices_text(const std::string& backend, int replicas);

// Runs the pipeline for each number of replicas, with its batch (strong), and with the batch scaled from the first run's (weak);
// each run in new processes. REQUIRES: there is one thread.
Scaling measure_scaling(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                        const ScalingQuestion& question);

std::string scaling_text(const Scaling& scaling);
std::string scaling_csv(const std::vector<ScalingPoint>& points);
std::string accuracy_csv(const std::vector<AccuracyPoint>& points);

}  // namespace millrace
