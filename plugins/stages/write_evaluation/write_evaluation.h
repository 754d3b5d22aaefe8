#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "millrace/class_matrix.h"
#include "millrace/predictions.h"
#include "millrace/stage.h"
#include "mistakes.h"

namespace millrace {

// Compares the network's classes with the images' labels, over a whole pass, and writes what it found.
//
//   [evaluate]
//   every = "never"                      # runs with: pipeline-run FILE --graph evaluate --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"]
//
//   [evaluate.write_evaluation]
//   folder = "evaluation"                # in the run's folder
//   mistakes = 36                        # on the sheet of the worst ones
//
// CSV files (RFC 4180) with a first row of names:
//   figures.csv       accuracy, means over the classes that occur, expected calibration error
//   classes.csv       count, accuracy (recall), precision, F1 and IoU of each class
//   confusion.csv     what images of each class were predicted as: counts, and shares of the class
//   calibration.csv   accuracy beside confidence, in 15 bins of confidence
//   mistakes.csv      the images of the sheet, in its order: path, index in the source, label, prediction, confidence, loss
// and two pictures:
//   confusion.png     the class matrix: a row for each label, cells coloured by their share of the row (matrix_picture.h); for
//                     up to 4,000 classes
//   mistakes.png      the wrong predictions of the highest loss, -log of the label's probability: the images as the network saw
//                     them, label, prediction, its confidence, loss, and number and name of the sample (mistakes.h)
//
// The predicted class is the first of the largest outputs, its confidence the softmax of the output, in float64; of a network
// that ends with a softmax layer, the output itself. Segmentation needs no such stage: the observer `results` writes the same
// files by pixel.
//
// Ports: in, Predictions of (C) float32. Skipped samples are left out. It asks for images unless mistakes = 0: a batch is in use
// until its predictions were counted. Memory: 8 bytes for each pair of classes, and the images of the sheet.
// Threading: samples are counted in order of the source, and files written, on a thread of its own (PredictionLine): the files
// are the same for any number of threads and replicas. A run of several processes refuses graphs that make predictions.
//
// Errors: an output that is no vector: ErrorKind::usage, in the constructor. A folder where nothing can be written, in open(), or
// a full disk: ErrorKind::storage. A sample without a label, or with one that is no output: ErrorKind::data. Files appear under
// their names when a pass is whole.
class WriteEvaluation : public Stage {
 public:
  struct Params {
    std::string folder = "evaluation";
    std::int64_t mistakes = 36;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageContext& context, CompileRequest& request);
  WriteEvaluation(const Params& params, const StageContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::size_t memory_bound() const override;

 private:
  void write(const Predictions& share);
  void count(const Predictions& share, std::size_t sample);
  std::size_t label_of(const Predictions::Sample& sample) const;
  void finish();
  void write_tables(const ClassMatrix& matrix) const;
  void write_pictures(const ClassMatrix& matrix) const;
  void write_file(std::string_view name, const std::string& text) const;

  const Params params_;
  const StageContext context_;
  const bool probabilities_;
  std::size_t classes_ = 0;
  std::vector<std::string> names_;  // of the classes; of those without a name their numbers
  std::string folder_;

  // Of the line's thread.
  std::vector<double> matrix_;  // of the pass so far
  Calibration calibration_;
  Mistakes mistakes_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

}  // namespace millrace
