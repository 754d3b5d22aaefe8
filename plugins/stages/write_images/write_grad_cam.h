#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "picture_folder.h"
#include "picture_frame.h"

namespace millrace {

// A map of one image, (height, width).
struct HeatMap {
  int height = 0, width = 0;
  std::vector<float> values;
};

// Grad-CAM (Selvaraju et al. 2017, arXiv 1610.02391, equations 1 and 2): ReLU of the sum of all channels of `features`, each
// weighted by the mean over all places of the score's gradient by it. Both are (C, height, width), with the size of `map`, whose
// values are written.
void grad_cam(std::span<const float> features, std::span<const float> gradient, HeatMap& map);

// The map's bilinear value between its pixels; the edge extends by half a pixel. 0 further outside.
float value_at(const HeatMap& map, double x, double y);

// Draws where in each image a class was found: Grad-CAM (Selvaraju et al. 2017, arXiv 1610.02391), in colours over the image.
//
//   [predict]
//   every = "never"                      # runs with: pipeline-run FILE --graph predict --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "write_grad_cam"]
//
//   [predict.write_grad_cam]
//   classes  = "predicted"               # or "label", or the name of a class
//   features = "layer4.1.relu2"          # a layer; by default the last map as large as the last convolution's
//
// Each channel of the features counts by the mean of the class's score's gradient by it, in inference. The positive part of the
// sum is resized bilinearly to the picture. Red is the map's largest value; where the map is 0 the image is unchanged. The score
// is the network's result before the loss's softmax; if the network ends with a layer `softmax`, scores are probabilities.
//
// Ports: in, Predictions of (C) float32, with images: a batch is held until its pictures are written. Skipped samples are left
// out; quarantine.jsonl names them. With classes = "label", samples without a label known to the network are left out too, and a
// warning counts them. Threading: pictures are made and written on a separate thread (PredictionLine), in order of the source.
// Errors: features that are not a map or do not affect the result, an unknown class: ErrorKind::usage, in the constructor. An
// unwritable folder (in open()) or a full disk: ErrorKind::storage. Two samples of one name, or a sample whose place in its
// source image is unknown: ErrorKind::usage. Each file appears under its name when it is complete.
class WriteGradCam : public Stage, public NamesFilesAfterSamples {
 public:
  struct Params : PictureParams {
    Params() { folder = "grad_cam"; }
    std::string features;
    std::string classes = "predicted";
    std::string size = "network";
    double opacity = 0.7;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const DataContext& context, CompileRequest& request);
  WriteGradCam(const Params& params, const DataContext& context);

  void check_names(const NextSample& next) const override { pictures_.check_names(next); }
  void open() override { pictures_.open(context_); }
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override {
    line_.stop();
    pictures_.stop();
  }

 private:
  void write(const Predictions& share);
  void write_picture(const Predictions& share, std::size_t sample);
  bool has_score(const Predictions::Sample& sample) const;
  void end_pass();

  const Params params_;
  const DataContext context_;
  const ScoreGradient gradient_;

  // Used only on the line's thread.
  PictureFolder pictures_;
  HeatMap map_;
  SeenImage image_;
  std::vector<std::uint8_t> picture_;  // (picture, 3)
  std::uint64_t without_score_ = 0;    // samples in this pass

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
