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
// "ids" are 8-bit grey values: the class as the network counts, from 0; of equal outputs the lower number. "labels" are grey
// values as label images have them, of each class the first of its ids: those of `labels`, else of the source. "colours" are
// class numbers as indices into a palette: that of `colours`, else of the source or the weights, else of PASCAL VOC. "overlay"
// lays the palette over the image. size = "network" is the size of the network's input; "source" is that of the image in its
// file: each of its pixels takes the nearest pixel that the network saw, by the sample's affine map, and value 255 where the
// network saw none. An overlay lies over what the network saw, which size = "source" enlarges: it is not as sharp as the file.
//
// Ports: in, Predictions of (C, H, W) float32, 2 <= C <= 255. Skipped samples are left out; quarantine.jsonl names them. An
// overlay asks for images: a batch is then in use until its pictures are written. Threading: pictures are made and written on a
// thread of its own (PredictionLine), in order of the source. Errors: an output that is no map of classes, or one that shows more
// than the input: ErrorKind::usage, in the constructor. A folder where nothing can be written, in open(), or a full disk:
// ErrorKind::storage. Two samples of one name, or a sample whose place in its source image is not known: ErrorKind::usage. Each
// file appears under its name when it is whole.
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
  std::vector<std::uint8_t> labels_;  // by class; empty: numbers are written
  ImageShape map_;                    // of the network's output, one channel

  // Used on the line's thread alone.
  PictureFolder pictures_;
  FiniteCount finite_;
  PixelClasses predicted_;
  std::vector<std::uint8_t> classes_;  // (map_)
  std::vector<std::uint8_t> ids_;      // (picture)
  SeenImage image_;
  std::vector<std::uint8_t> picture_;  // (picture, 3), for an overlay

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

}  // namespace millrace
