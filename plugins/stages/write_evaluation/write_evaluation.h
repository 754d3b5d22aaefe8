#pragma once

#include <kept_samples.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibration.h"
#include "millrace/batch.h"
#include "millrace/metrics/class_matrix.h"
#include "millrace/stage.h"
#include "millrace/util/class_colours.h"
#include "millrace/util/joint_sink.h"
#include "millrace/util/output_file.h"
#include "mistakes.h"
#include "worst_images.h"

namespace millrace {

// Counts, over a pass, how often samples of each class were predicted as each class. With many classes, only pairs that occur
// take memory.
class ClassCounts {
 public:
  static constexpr std::size_t kMaxDense = 512;

  explicit ClassCounts(std::size_t classes) : classes_(classes), dense_(classes <= kMaxDense ? classes * classes : 0) {}

  void add(std::size_t of, std::size_t as, double count) {
    const std::size_t at = of * classes_ + as;
    (dense_.empty() ? sparse_[at] : dense_[at]) += count;
  }
  std::span<double> dense() { return dense_; }  // by (class, predicted class). REQUIRES: at most kMaxDense classes
  void clear() {
    std::ranges::fill(dense_, 0.0);
    sparse_ = {};
  }

  // Those above 0, sorted by class, then by predicted class.
  std::vector<ClassMatrix::Cell> cells() const {
    std::vector<ClassMatrix::Cell> cells;
    const auto take = [&](std::size_t at, double count) {
      if (count > 0) cells.push_back({static_cast<std::uint32_t>(at / classes_), static_cast<std::uint32_t>(at % classes_), count});
    };
    for (std::size_t at = 0; at < dense_.size(); ++at) take(at, dense_[at]);
    for (const auto& [at, count] : sparse_) take(at, count);
    const auto place = [](const ClassMatrix::Cell& cell) { return std::pair(cell.of, cell.as); };
    if (dense_.empty()) std::ranges::sort(cells, {}, place);
    return cells;
  }

  // Memory in bytes for this many samples, including cells() and the sums of a ClassMatrix.
  static std::size_t memory_bound(std::size_t classes, std::uint64_t samples) {
    constexpr std::size_t kEntry = 56;  // per map entry, with its share of the table
    const bool is_dense = classes <= kMaxDense;
    const std::size_t pairs = is_dense ? classes * classes : std::min<std::size_t>(classes * classes, samples);
    return pairs * ((is_dense ? sizeof(double) : kEntry) + sizeof(ClassMatrix::Cell)) + 3 * classes * sizeof(double);
  }

 private:
  std::size_t classes_;
  std::vector<double> dense_;
  std::unordered_map<std::size_t, double> sparse_;
};

// Keeps this many samples, evenly spaced over the pass because sources often list one class after the other: images with their
// predicted class, and their label if it differs; or images with their label image and an overlay of the predicted classes.
class ShownSamples {
 public:
  // `of`: samples in a pass.
  ShownSamples(std::size_t most, std::uint64_t of, const ClassColours& colours)
      : spaced_(most, of), colours_(colours), shown_(most) {}

  bool takes(std::uint64_t position) const { return spaced_.takes(position) && shown_.takes(0, position); }
  // REQUIRES: takes() its position, share.batch, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample);
  void join(JointSink& processes) { shown_.join(processes); }
  void clear() { shown_.clear(); }

  // `heading`: "of 100 images of validate".
  drawing::Picture sheet(const std::string& heading, const std::vector<std::string>& names) const;

 private:
  drawing::KeptImage overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                             ImageShape map) const;

  drawing::EvenlySpaced spaced_;
  ClassColours colours_;
  drawing::KeptSamples shown_;
};

// Compares the network's classes with the labels of images, or of pixels, over a whole pass, and writes the results.
//
//   [evaluate]
//   every = "never"                      # runs with: pipeline-run FILE --graph evaluate --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"]
//
//   [evaluate.write_evaluation]
//   folder = "evaluation"                # in the run's folder
//   mistakes = 36                        # on the sheet of the worst ones
//   predictions = 25                     # on the sheet of images from the whole pass
//
// CSV files (RFC 4180) with a first row of names:
//   figures.csv       accuracy, means over classes (class_matrix.h), expected calibration error: also metrics of the pass, by the
//                     same names
//   classes.csv       count, accuracy (recall), precision, F1 and IoU of each class
//   confusion.csv     predictions for images of each class: counts, and shares of the class. With more than 200 classes,
//                     pairs that never occur are left out
//   calibration.csv   accuracy and confidence, in 15 bins of confidence
//   mistakes.csv      the images of the sheet, in its order: path, index in the source, label, prediction, confidence, loss
// and pictures, unless this build cannot draw:
//   confusion.png     the class matrix: a row for each label, cells coloured by their share of the row; for up to 4,000 classes.
//                     The same as confusion.svg
//   classes.png       recall, precision, F1 and count of each class, as bars; for pixels accuracy, IoU, precision and count
//   predictions.png   images from the whole pass as the network saw them, with their predictions; for maps, overlaid with the
//                     label image and the predicted classes
//   mistakes.png      the wrong predictions of the highest loss, -log of the label's probability: the images as the network saw
//                     them, label, prediction, its confidence, loss, and number and name of the sample (mistakes.h)
//
// The predicted class is the first of the largest outputs, its confidence the softmax of the output, in float64; if the network
// ends with a softmax layer, the output itself.
//
// If the output is a map, each pixel is compared with its value in the label image; ignored pixels count nowhere. Calibration
// covers pixels, figures.csv also has `pixels`, mean_iou and weighted_iou, and mistakes are replaced by
//   worst.csv         the images of the sheet, in its order: path, index, counted pixels, their accuracy, their mean loss
//   worst.png         the images of the highest mean loss: each with its label image and the predicted classes, in the colours
//                     of the source or the weights (worst_images.h)
//
// Ports: in, Predictions of (C) or (C, H, W) float32. Skipped samples are left out. Requests images unless mistakes and
// predictions are 0, and always for maps, whose label images are stored with them: a batch is held until its predictions are
// counted. Memory: 24 bytes for each pair of classes, with more than 512 classes some 72 for each pair that occurs, and the
// images of the sheets. Threading: PredictionLine; several processes: JointSink. A run without a folder (run.folder = "") writes
// nothing and logs that. Warns once if a pass predicts one class for all images; during training the run does this
// (PassEvent::only_class).
//
// Errors: a map without label images of its size: ErrorKind::usage, in the constructor. An unwritable folder (in open()) or a
// full disk: ErrorKind::storage. A sample without a label, or with one that is not an output: ErrorKind::data. Files appear under
// their names when a pass is complete, all or none.
class WriteEvaluation : public Stage, public JointSink {
 public:
  struct Params {
    std::string folder = "evaluation";
    std::int64_t mistakes = 36;
    std::int64_t predictions = 25;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteEvaluation(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::size_t memory_bound() const override;
  std::vector<std::string> reported_figures() const override;

 private:
  void require_label_images(const Shape& output);
  void write(const Predictions& share);
  void count(const Predictions& share, std::size_t sample);
  void count_pixels(const Predictions& share, std::size_t sample);
  bool is_map() const { return map_.channels > 0; }
  std::size_t label_of(const Predictions::Sample& sample) const;
  void finish();
  void join();
  void warn_of_one_class(const ClassMatrix& matrix);
  void forget();
  std::vector<Figure> figures(const ClassMatrix& matrix) const;
  std::string figures_csv(const ClassMatrix& matrix) const;
  void add_tables(OutputFiles& files, const ClassMatrix& matrix) const;
  void add_pictures(OutputFiles& files, const ClassMatrix& matrix) const;
  std::string path(const char* name) const { return folder_ + "/" + name; }

  const Params params_;
  const DataContext context_;
  const bool probabilities_;
  std::size_t classes_ = 0;
  std::vector<std::string> names_;  // names of the classes, or their numbers
  ImageShape map_{0, 0, 0};         // shape of the label images, one channel; for vectors without channels
  std::string folder_;              // empty: this process writes nothing

  // Used only on the line's thread.
  ClassCounts counts_{0};  // in the current pass
  Calibration calibration_;
  Mistakes mistakes_;
  PixelJudge pixels_;
  std::vector<std::uint8_t> labels_;  // (map_)
  WorstImages worst_;
  ShownSamples shown_;
  double images_ = 0, not_finite_ = 0;
  bool warned_ = false;  // warned about predictions that are all of one class

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
