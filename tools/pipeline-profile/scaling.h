// How a pipeline scales over the devices that are there: runs with 1, 2, 4 ... replicas, measured beside what was predicted, and
// how long each takes until it has learned.
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
  Leave leave = nullptr;      // for the processes that are made
  double to_accuracy = 0;     // it also trains until validation has reached it; 0: it does not
};
// "1,2,4": ascending. Throws Error(usage).
std::vector<int> parse_replicas(std::string_view text);

// Times are those of a step, on average over steps and replicas.
struct ScalingPoint {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;                 // of all replicas
  double images_per_second = 0, band = 0;  // +-, nine times of ten
  double predicted = 0, low = 0, high = 0;
  double efficiency = 1;  // beside so many times as fast as the first run, for its replicas
  double step_seconds = 0;
  double compute_seconds = 0;  // of a device: forward, backward, update, copies
  double exposed_seconds = 0;  // of a device that waits for sums, or for the replica that comes last
  double reduce_seconds = 0;   // of the sums; 0: not measured
  double hidden = 1;           // the part of reduce_seconds during which devices compute

  double hidden_seconds() const { return hidden * reduce_seconds; }
  double other_seconds() const;  // it waits for data, or for a thread that submits its work
};

// A validation of a run with so many replicas.
struct AccuracyPoint {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;
  double seconds = 0;  // since training began
  double epoch = 0, accuracy = 0;
};

struct Scaling {
  ScalingQuestion question;
  std::vector<ScalingPoint> points;  // strong, then weak, each as the question's replicas
  std::vector<AccuracyPoint> accuracies;
  std::vector<double> bucket_bytes;
};

// The devices of a run with so many replicas, of the kind that `backend` is: "cpu*4", "cuda:0,1,2,3".
std::string devices_text(const std::string& backend, int replicas);

// Runs the pipeline for each number of replicas, with its batch (strong), and with so many times the first run's (weak); each run
// in processes that are made for it. REQUIRES: there is one thread.
Scaling measure_scaling(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                        const ScalingQuestion& question);

std::string scaling_text(const Scaling& scaling);
std::string scaling_csv(const std::vector<ScalingPoint>& points);
std::string accuracy_csv(const std::vector<AccuracyPoint>& points);

}  // namespace millrace
