#pragma once

#include <string>

#include "millrace/stage.h"

namespace millrace {

// Cuts a piece of a fixed size out of every image.
//
//   [train.crop]
//   size     = [224, 224]
//   position = "random"     # or "centre"
//
// Ports: in, out: ImageChunk, uint8. A pending record is executed first, on the whole image. The target gets the same crop. Order
// of draws: for "random" the row, then the column, each uniform over all that fit. "centre" draws nothing; millrace/util/centre.h
// defines the middle of an odd difference.
// Threading: parallel.
// Errors: images known to be smaller than the piece: ErrorKind::usage, in the constructor; a smaller image: ErrorKind::content.
class Crop : public SampleTransform {
 public:
  struct Params {
    Size size;
    std::string position = "centre";
  };
  static void describe(StageDescription<Params>& description);

  Crop(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool is_random() const override { return random_; }
  bool changes_pixels() const override { return changes_; }
  ImageShape image_shape() const override { return piece_; }

 private:
  ImageShape piece_;
  bool random_;
  bool changes_;  // false if all images have this size already
  ImageShape window_;
};

}  // namespace millrace
