#pragma once

#include <picture.h>
#include <plot.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compared_numbers.h"
#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/joint_sink.h"

namespace millrace {

// Errors of the predictions of one number. Non-finite predictions are counted and left out of all other values.
struct ColumnErrors {
  std::size_t count = 0, not_finite = 0;  // `count`: finite ones
  double rmse = 0, mae = 0;
  std::optional<double> explained;  // R²: 1 - squared error / squared distance from the mean target; empty for equal targets

  static ColumnErrors of(const std::vector<drawing::Point>& pairs);  // x: target, y: prediction
};

// A panel for each number, at most kMaxPanels: a dot for each sample, at most kMaxDots, and a dashed line of equality.
// Non-finite values are left out.
drawing::Picture scatter(const std::vector<std::string>& names, const std::vector<std::vector<drawing::Point>>& pairs,
                         const std::string& heading);

inline constexpr std::size_t kMaxPanels = 12, kMaxDots = 2000;

// Compares the numbers that a network predicts with those of the samples, over a whole pass, and writes the results.
//
//   [validate]
//   flow = ["read", "decode_image", "batch", "forward", "metrics", "write_regression"]
//
//   [validate.write_regression]
//   columns     = ["age", "height"]      # names of the numbers
//   folder      = "evaluation"           # in the run's folder
//   mistakes    = 25                     # on the sheet of the largest errors
//   predictions = 25                     # on the sheet of images from the whole pass
//
// CSV files (RFC 4180) with a first row of names:
//   figures.csv       rmse, mae and r2 of each number, over finite predictions; not_finite counts the others, if any.
//                     r2 is empty (undefined) if all targets are equal. They are also metrics of the pass, "mae.age" and
//                     so on, with their means over the numbers, mean_rmse, mean_mae and mean_r2; with a single number
//                     rmse, mae and r2 too
//   numbers.csv       a row for each sample: path, and target and prediction of each number
// and pictures, unless this build cannot draw:
//   scatter.png       predictions over targets, a panel for each number. The same as scatter.svg
//   predictions.png   images from the whole pass as the network saw them, with predictions and targets
//   mistakes.png      those of the largest errors, the largest first
//
// Ports: in, Predictions of (C) float32, with C numbers per sample. Skipped samples are left out. A batch is held until its
// predictions are compared. Memory: some 150 bytes per sample and 16 per number, and the images of the sheets. Threading:
// PredictionLine; several processes: JointSink. A run without a folder writes nothing and logs that.
//
// Errors: a result that is not a vector, or whose length differs from the number of names: ErrorKind::usage, in the constructor.
// Samples with another number of numbers: ErrorKind::usage. An unwritable folder (in open()) or a full disk: ErrorKind::storage.
class WriteRegression : public Stage, public JointSink {
 public:
  using Params = ComparisonParams;
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteRegression(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::size_t memory_bound() const override { return numbers_.memory_bound(); }
  std::vector<std::string> reported_figures() const override;

 private:
  void write(const Predictions& share);
  std::vector<Figure> figures(const std::vector<ColumnErrors>& errors) const;
  void write_files(const std::vector<std::vector<drawing::Point>>& pairs, const std::vector<ColumnErrors>& errors) const;
  std::string figures_csv(const std::vector<ColumnErrors>& errors) const;  // by column
  std::string numbers_csv() const;
  std::vector<std::vector<drawing::Point>> pairs() const;  // by column: target, prediction

  const Params params_;
  const DataContext context_;
  std::string folder_;       // empty: this process writes nothing
  ComparedNumbers numbers_;  // used only on the line's thread

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
