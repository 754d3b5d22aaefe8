#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compared_numbers.h"
#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/joint_sink.h"

namespace millrace {

// One label of one image.
struct LabelScore {
  float score = 0;  // larger is more certain; NaN is the least certain
  bool has = false, predicted = false;
};

// Counts of images and the metrics computed from them. Undefined metrics are empty: recall of a label that no image has,
// precision of one that is never predicted.
struct LabelFigures {
  std::size_t count = 0, having = 0, predicted = 0, right = 0;  // right: present and predicted
  // The area below precision over recall, in steps: sum over distinct scores, the highest first, of precision times the gain of
  // recall. As scikit-learn's average_precision_score.
  std::optional<double> average_precision;

  static LabelFigures of(std::span<const LabelScore> scores);

  std::optional<double> precision() const { return share(right, predicted); }
  std::optional<double> recall() const { return share(right, having); }
  std::optional<double> f1() const { return share(2 * right, having + predicted); }

 private:
  static std::optional<double> share(std::size_t part, std::size_t of) {
    if (of == 0) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(of);
  }
};

// Compares the labels that a network predicts, several an image, with those of the samples, over a whole pass, and writes the
// results.
//
//   [validate]
//   flow = ["read", "decode_image", "batch", "forward", "metrics", "write_label_scores"]
//
//   [validate.write_label_scores]
//   columns     = ["cat", "indoors"]     # names of the labels
//   threshold   = 0.5                    # a label is predicted above this probability
//   folder      = "evaluation"           # in the run's folder
//   mistakes    = 25                     # on the sheet of the largest errors
//   predictions = 25                     # on the sheet of images from the whole pass
//
// CSV files (RFC 4180) with a first row of names:
//   figures.csv       images, accuracy (the share of right labels), exact_match (of images with all labels right),
//                     mean_f1 and mean_average_precision over the labels that occur (scikit-learn's macro averages count the
//                     others as 0): also metrics of the pass, and for each label "recall.cat", precision, f1, average_precision
//   labels.csv        for each label: images, those that have it, those predicted to have it, precision, recall, F1 and
//                     average precision (LabelFigures). Undefined values are empty
//   scores.csv        a row for each sample: path, and for each label 0 or 1, and its probability
// and pictures, unless this build cannot draw:
//   labels.png        average precision, F1, precision, recall and count of each label, as bars
//   predictions.png   images from the whole pass as the network saw them, with their labels; mistakes are red
//   mistakes.png      those of the highest loss, the highest first
//
// A probability is the sigmoid of an output, as in the loss binary_cross_entropy. An image has a label whose number is 0.5 or
// more.
//
// Ports: in, Predictions of (C) float32, with C numbers per sample. Skipped samples are left out. A batch is held until its
// predictions are compared. Memory: some 150 bytes per sample and 16 per label, and the images of the sheets. Threading:
// PredictionLine; several processes: JointSink. A run without a folder writes nothing and logs that.
//
// Errors: as WriteRegression.
class WriteLabelScores : public Stage, public JointSink {
 public:
  struct Params : ComparisonParams {
    double threshold = 0.5;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteLabelScores(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::size_t memory_bound() const override { return numbers_.memory_bound(); }
  std::vector<std::string> reported_figures() const override;

 private:
  void write(const Predictions& share);
  void write_files(const std::vector<LabelFigures>& labels) const;
  std::vector<Figure> figures(const std::vector<LabelFigures>& labels) const;
  LabelScore score_of(const NumberRow& row, std::size_t label) const;
  std::vector<drawing::Caption> captions_of(const NumberRow& row) const;
  std::string figures_csv(const std::vector<LabelFigures>& labels) const;
  std::string labels_csv(const std::vector<LabelFigures>& labels) const;
  std::string scores_csv() const;
  drawing::Picture bars(const std::vector<LabelFigures>& labels) const;

  const Params params_;
  const DataContext context_;
  const double least_;       // a larger output predicts its label
  std::string folder_;       // empty: this process writes nothing
  ComparedNumbers numbers_;  // used only on the line's thread

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
