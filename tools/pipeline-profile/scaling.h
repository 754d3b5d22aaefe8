// How a pipeline scales over the devices that are there: runs with 1, 2, 4 ... replicas, measured beside what was predicted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forecast.h"
#include "measure.h"
#include "millrace/plugin.h"

namespace millrace {

struct ScalingPoint {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;
  double images_per_second = 0, band = 0;  // +-, nine times of ten
  double predicted = 0, low = 0, high = 0;
  double efficiency = 1;      // beside so many times as fast as the first run, for its replicas
  double reduce_seconds = 0;  // of a step's sums; 0: not measured
  double hidden = 1;          // the part of it during which replicas compute
};

// "1,2,4": ascending. Throws Error(usage).
std::vector<int> parse_replicas(std::string_view text);

// The devices of a run with so many replicas, of the kind that `backend` is: "cpu*4", "cuda:0,1,2,3".
std::string devices_text(const std::string& backend, int replicas);

// Runs the pipeline for each number of replicas, with its batch (strong), and with so many times the first run's (weak).
std::vector<ScalingPoint> measure_scaling(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options,
                                          const std::vector<int>& replicas);

std::string scaling_text(const std::vector<ScalingPoint>& points);
std::string scaling_csv(const std::vector<ScalingPoint>& points);

}  // namespace millrace
