#pragma once

#include <string>
#include <vector>

#include "millrace/stage.h"

namespace millrace {

// Random flips and shifts. Pixels stay where they are: only the sample's record is edited, and the device executes it together
// with normalisation when the batch lands there.
//
//   [train.augment]
//   flip_x    = 0.5
//   translate = { x = [-4, 4], y = [-4, 4] }   # whole pixels, to the right and down
//   border    = "reflect"
//
// Ports: in, out: ImageChunk. An image larger than the network's input is first seen through a window in its middle; shifting
// the window then shows real pixels, and the border rule only begins where they end. Without a network the window is the image.
// Order of draws, each always made: flip_x, flip_y, translate.x, translate.y. Order of changes: flips, then the shift.
// alternating_flip (Jordan, arXiv 2404.00498): a fixed half of the indices, chosen by a hash of (seed, stage, index), is flipped
// in even epochs, the other half in odd ones, so that two epochs in a row see every image both ways. It is no draw of this
// epoch; the sample's hash takes it in as a word of its own, kFlipped or kUnflipped. flip_x is still drawn, and not used.
// Threading: parallel.
// Errors: fractions of pixels, huge shifts, flip_x beside alternating_flip: ErrorKind::usage, in the constructor. Images beyond
// kLargest pixels in height or width: ErrorKind::content (a record's coordinates have 16 bits).
class Augment : public SampleTransform {
 public:
  struct Translate {
    Range x, y;
  };
  struct Params {
    double flip_x = 0;
    double flip_y = 0;
    bool alternating_flip = false;
    Translate translate;
    std::string border = "constant";
    std::vector<std::int64_t> fill = {0};
  };
  static constexpr int kLargest = 12'000;  // of images and of shifts
  static constexpr std::uint64_t kUnflipped = 1, kFlipped = 2;

  static void describe(StageDescription<Params>& description);

  Augment(const Params& params, const StageContext& context);
  void process(Sample& sample, Draw& draw) override;

 private:
  struct Pixels {
    std::int64_t low = 0, high = 0;
  };
  static Pixels whole_pixels(const Range& range, const char* name);
  void set_fill(const std::vector<std::int64_t>& fill);

  double flip_x_, flip_y_;
  bool alternating_;
  std::uint64_t halves_;  // what tells the two halves apart
  Pixels x_, y_;
  Border border_;
  std::uint8_t fill_[4] = {};
  ImageShape window_;
};

}  // namespace millrace
