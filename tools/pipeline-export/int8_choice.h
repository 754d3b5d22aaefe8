// Which layers of a model are computed in int8, and with which scales.
//
// 1. Calibration: the values of `samples` images, evenly spread over the validation. A tensor's largest value on the grid is the
//    one with the least squared error, by a histogram; weights are rounded by their largest one.
// 2. Sensitivity: the validation with each layer alone in int8.
// 3. If all layers together lose more than the bound, the most sensitive ones stay in float: the fewest that keep to it.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "millrace/stage.h"
#include "predict/int8.h"

namespace millrace {

struct Int8Request {
  std::int64_t samples = 500;
  // Of the main metric: percentage points, or decibels of PSNR, or percent of a loss. The main metric is mean_iou of maps, psnr
  // of images, accuracy of classes and labels, else the loss.
  double max_drop = 0.5;
  std::vector<std::string> overrides;             // of the run's pipeline, as `--set` gives them
  std::filesystem::path weights;                  // where weights in int8 may be written
  const std::atomic<int>* stop_signal = nullptr;  // a nonzero value stops it
};

struct Int8Choice {
  Int8Table table;
  std::string text;  // the table of sensitivity, for people
};

// nullopt if a signal stopped it. Throws Error(usage) for a network without layers for int8, Error(data) if no choice of layers
// keeps to the bound.
std::optional<Int8Choice> choose_int8(const Model& model, const Int8Request& request, const Registry& registry);

// Measures the values that int8_layers() round, and reports each grid as a metric of the pass, "int8 NAME" with the scale,
// negative if the grid is signed. Only pipeline-export registers it.
//
// Ports: in, Predictions. Threading: on the thread of its PredictionLine. Errors: Error(data) for values that are not finite.
class CalibrateInt8;
void register_calibration(Registry& registry);

}  // namespace millrace
