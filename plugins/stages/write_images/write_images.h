#pragma once

#include <cstdint>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/finite_count.h"
#include "millrace/util/output_pixels.h"
#include "picture_folder.h"

namespace millrace {

// Writes the network's result as pictures, for image-to-image networks (denoising, super-resolution).
//
//   [predict]
//   every = "never"                      # runs with: pipeline-run FILE --graph predict --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "write_images"]
//
//   [predict.write_images]
//   folder = "images"                    # in the run's folder: images/7.png for photos/7.jpg
//
// Values become pixels with the input's mean and deviation (OutputPixels), the scale that a network learns from target images.
//
// Ports: in, Predictions of (1 or 3, H, W) float32. Skipped samples are left out; quarantine.jsonl names them.
// Threading: pictures are made and written on a separate thread (PredictionLine), in order of the source.
// Errors: a result that is not a picture: ErrorKind::usage, in the constructor. An unwritable folder (in open()) or a full disk:
// ErrorKind::storage. Two samples of one name: ErrorKind::usage. Each file appears under its name when it is complete.
class WriteImages : public Stage, public NamesFilesAfterSamples {
 public:
  struct Params : PictureParams {
    Params() { folder = "images"; }
    bool normalised = true;
  };
  static void describe(StageDescription<Params>& d);
  WriteImages(const Params& params, const DataContext& context);

  void check_names(const NextSample& next) const override { pictures_.check_names(next); }
  void open() override { pictures_.open(context_); }
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override {
    line_.stop();
    pictures_.stop();
  }

 private:
  void write(const Predictions& share);

  const DataContext context_;
  const OutputPixels result_;

  // Used only on the line's thread.
  PictureFolder pictures_;
  FiniteCount finite_;
  std::vector<std::uint8_t> pixels_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
