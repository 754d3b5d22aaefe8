#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/metrics/class_scores.h"
#include "millrace/stage.h"

namespace millrace {

// True and predicted class of each pixel, row by row. Pixels whose true class is not in `classes`, such as an ignored id, belong
// to no class in either map.
struct ClassMaps {
  int height = 0, width = 0;
  std::size_t classes = 0;  // at most 255
  std::span<const std::uint8_t> truth, predicted;
};

// The boundary F1 of each class. A boundary pixel of a class is one that has a neighbour (above, below, left or right) of another
// class, or lies at the image's edge. It is found if the other map has a boundary pixel of the same class within `tolerance`
// times the image's diagonal. Precision is the share of predicted boundary pixels that are found in the truth, recall that of the
// true ones found in the prediction, and F1 their harmonic mean. Empty for a class in neither map; 0 for a class in only one map.
// Csurka, Larlus and Perronnin, "What is a good evaluation measure for semantic segmentation?" (BMVC 2013).
std::vector<std::optional<double>> boundary_f1(const ClassMaps& maps, double tolerance);

// Compares the boundaries of predicted classes with those of the label images: boundary F1, see boundary_f1().
//
//   [evaluate]
//   every = "never"                      # runs with: pipeline-run FILE --graph evaluate --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_boundaries"]
//
//   [evaluate.write_boundaries]
//   folder = "boundaries"                # in the run's folder
//
// Two CSV files (RFC 4180) with a first row of names:
//   classes.csv   class,images,boundary_f1: the mean over the images in which the class occurs or was predicted
//   figures.csv   figure,value: images, and mean_boundary_f1, the mean over images of the mean over an image's classes;
//                 also a metric of the pass
//
// The predicted class of a pixel is the first of the largest outputs. Pixels are those of the network's output. The overlap that
// the observer `results` reports ignores boundaries; this metric depends on nothing else.
//
// Ports: in, Predictions of (C, H, W) float32. Skipped samples and images without a class are left out. Requests images: a batch
// is held until it is compared. Threading: maps are compared and files written on a separate thread (PredictionLine). Errors: an
// output that is not a map of classes, targets other than label images of its size: ErrorKind::usage, in the constructor. An
// unwritable folder (in open()) or a full disk: ErrorKind::storage. Files appear when a pass is complete.
class WriteBoundaries : public Stage {
 public:
  struct Params {
    std::string folder = "boundaries";
    double tolerance = 0.0075;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteBoundaries(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::vector<std::string> reported_figures() const override { return {"mean_boundary_f1"}; }

 private:
  struct Mean {
    double sum = 0, count = 0;
    void add(double value) { sum += value, count += 1; }
  };

  void write(const Predictions& share);
  void compare(const Predictions& share, std::size_t sample);
  void finish();

  const Params params_;
  const DataContext context_;
  ImageShape map_;  // shape of the label images, one channel
  std::string folder_;

  // Used only on the line's thread.
  std::vector<std::uint8_t> truth_, predicted_;
  PixelClasses judge_;
  std::vector<Mean> classes_;  // in the current pass
  Mean images_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
