#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "millrace/predictions.h"
#include "millrace/stage.h"

namespace millrace {

// Compares the network's classes with the images' labels, over a whole pass, and writes what it found.
//
//   [evaluate]
//   every = "never"                      # runs with: pipeline-run FILE --graph evaluate --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"]
//
//   [evaluate.write_evaluation]
//   folder = "evaluation"                # in the run's folder
//
// Four CSV files (RFC 4180) with a first row of names:
//   figures.csv       accuracy, means over the classes that occur, expected calibration error
//   classes.csv       count, accuracy (recall), precision, F1 and IoU of each class
//   confusion.csv     what images of each class were predicted as: counts, and shares of the class
//   calibration.csv   accuracy beside confidence, in 15 bins of confidence
//
// The predicted class is the first of the largest outputs, its confidence the softmax of the output, in float64; of a network
// that ends with a softmax layer, the output itself. Segmentation needs no such stage: the observer `results` writes the same
// files by pixel.
//
// Ports: in, Predictions of (C) float32. Skipped samples are left out. Memory: 8 bytes for each pair of classes.
// Threading: the files are written on a thread of its own (PredictionLine).
// Errors: an output that is no vector: ErrorKind::usage, in the constructor. A folder where nothing can be written, in open(), or
// a full disk: ErrorKind::storage. A sample without a label, or with one that is no output: ErrorKind::data. Files appear under
// their names when a pass is whole.
class WriteEvaluation : public Stage {
 public:
  struct Params {
    std::string folder = "evaluation";
  };
  static void describe(StageDescription<Params>& d);
  WriteEvaluation(const Params& params, const StageContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }

 private:
  void write(const Predictions& share);
  void count(const Predictions::Sample& sample, std::span<const float> outputs);
  void finish();
  void write_file(std::string_view name, const std::string& text) const;

  const Params params_;
  const StageContext context_;
  const bool probabilities_;
  std::size_t classes_ = 0;
  std::string folder_;

  // Of the line's thread.
  std::vector<double> matrix_;  // of the pass so far
  Calibration calibration_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

}  // namespace millrace
