#pragma once

#include <optional>

#include "erasing.h"
#include "geometry.h"
#include "jitter.h"
#include "millrace/stage.h"
#include "parameters.h"
#include "policies.h"
#include "random_crop.h"

namespace millrace {

// Changes images at random, and their targets with them.
//
//   [train.augment]
//   flip_x     = 0.5
//   translate  = { x = [-4, 4], y = [-4, 4] }   # whole pixels, to the right and down
//   rotate     = [-15, 15]                      # degrees
//   brightness = [0.6, 1.4]
//   erase      = { chance = 0.25 }              # by default every image
//   border     = "reflect"
//
// Ports: in, out: ImageChunk, uint8; only random_resized_crop changes the size.
//
// Order of changes: random_resized_crop; policies; colours, sharpness, noise (see Jitter); change of place (see Geometry);
// erasing. Colours come first, so that the fill outside the image keeps its colour.
//
// Flips and shifts by whole pixels are not executed here: the sample's record is edited, and the device executes it together with
// normalisation when the batch lands there. The network sees the middle window of a larger image; shifting it shows real pixels,
// and the border rule applies only outside the image. Without a network the window is the whole image. All other changes happen
// here, on the whole image, after executing any record that an earlier stage left.
//
// Targets follow every change of place: class targets by nearest neighbour, filled with their ignored id; larger targets
// (TargetSpec::scale) in their own pixels. Nothing else changes them.
//
// Order of draws: flip_x, flip_y, translate.x, translate.y, always, unless no change is possible at all; then rotate, scale,
// scale_x, scale_y, shear_x, shear_y; RandomCrop; Policies; Jitter; Erasing. Unset keys draw nothing. alternating_flip (Jordan,
// arXiv 2404.00498): a fixed half of the indices, chosen by a hash of (seed, stage, index), is flipped in even epochs, the other
// half in odd ones, so that two consecutive epochs show every image both ways. This is not a draw; the sample's hash includes it
// as a separate word, kFlipped or kUnflipped. flip_x is still drawn but ignored.
//
// Threading: parallel.
//
// Errors: fractions of pixels without translate.subpixel, huge shifts, flip_x with alternating_flip: ErrorKind::usage, in the
// constructor. Images beyond kLargest pixels in height or width: ErrorKind::content (a record's coordinates have 16 bits). With a
// target scale, both limits are divided by it; images known to be larger are ErrorKind::usage.
class Augment : public SampleTransform {
 public:
  using Params = AugmentParams;
  static constexpr int kLargest = Geometry::kLargest;  // pixels, for images and shifts
  static constexpr std::uint64_t kUnflipped = Geometry::kUnflipped, kFlipped = Geometry::kFlipped;

  static void describe(StageDescription<Params>& description);

  Augment(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool is_random() const override { return !is_idle_; }
  bool changes_pixels() const override { return changes_pixels_; }
  ImageShape image_shape() const override { return crop_ ? crop_->image_shape() : SampleTransform::image_shape(); }

 private:
  void erase(Sample& sample, Draw& draw, ImageShape window) const;

  const bool is_idle_;  // no change is possible
  Geometry geometry_;
  std::optional<RandomCrop> crop_;
  Policies policies_;
  Jitter jitter_;
  std::optional<Erasing> erasing_;
  bool on_host_;  // some change needs pixels
  bool changes_pixels_;
  ImageShape window_;
  int target_scale_;
};

}  // namespace millrace
