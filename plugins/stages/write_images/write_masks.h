#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/metrics/class_scores.h"
#include "millrace/stage.h"
#include "millrace/util/class_colours.h"
#include "millrace/util/finite_count.h"
#include "picture_folder.h"
#include "picture_frame.h"

namespace millrace {

// Writes the most probable class of each pixel as a PNG file for each image.
//
//   [predict]
//   every = "never"                      # runs with: pipeline-run FILE --graph predict --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "write_masks"]
//
//   [predict.write_masks]
//   folder  = "masks"                    # in the run's folder: masks/7.png for photos/7.jpg
//   picture = "overlay"                  # or "ids", "labels", "colours"
//   size    = "source"                   # or "network"
//
// "ids" are 8-bit grey values: the network's class number, from 0; among equal outputs the lower one. "labels" are the grey
// values of label images, the first id of each class: from `labels`, else from the source. "colours" are class numbers that index
// a palette: from `colours`, else from the source or the weights, else PASCAL VOC's. "overlay" blends the palette over the image.
// size = "network" is the size of the network's input; "source" is that of the image file: each pixel takes the nearest pixel
// that the network saw, by the sample's affine map, and 255 where it saw none. An overlay uses the network's input, which size =
// "source" enlarges: it is less sharp than the file.
//
// Ports: in, Predictions of (C, H, W) float32, 2 <= C <= 255. Skipped samples are left out; quarantine.jsonl names them. An
// overlay requests images: a batch is then held until its pictures are written. Threading: pictures are made and written on a
// separate thread (PredictionLine), in order of the source. Errors: an output that is not a map of classes, or that shows more
// than the input: ErrorKind::usage, in the constructor. An unwritable folder (in open()) or a full disk: ErrorKind::storage. Two
// samples of one name, or a sample whose place in its source image is unknown: ErrorKind::usage. Each file appears under its name
// when it is complete.
class WriteMasks : public Stage, public NamesFilesAfterSamples {
 public:
  struct Params : PictureParams {
    Params() { folder = "masks"; }
    std::string picture = "ids";
    std::string size = "network";
    std::vector<std::int64_t> labels;
    std::vector<std::string> colours;
    double opacity = 0.5;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteMasks(const Params& params, const DataContext& context);

  void check_names(const NextSample& next) const override { pictures_.check_names(next); }
  void open() override { pictures_.open(context_); }
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override {
    line_.stop();
    pictures_.stop();
  }

 private:
  std::vector<std::uint8_t> find_labels() const;
  void write(const Predictions& share);
  void write_picture(const Predictions& share, std::size_t sample);
  void place_classes(const PictureFrame& frame);
  void blend();

  const Params params_;
  const DataContext context_;
  ClassColours colours_{};
  std::vector<std::uint8_t> labels_;  // by class; empty: writes numbers
  ImageShape map_;                    // shape of the network's output, one channel

  // Used only on the line's thread.
  PictureFolder pictures_;
  FiniteCount finite_;
  PixelClasses predicted_;
  std::vector<std::uint8_t> classes_;  // (map_)
  std::vector<std::uint8_t> ids_;      // (picture)
  SeenImage image_;
  std::vector<std::uint8_t> picture_;  // (picture, 3), for an overlay

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
