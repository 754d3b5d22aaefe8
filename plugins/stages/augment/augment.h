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
// Ports: in, out: ImageChunk, uint8; the size stays, but for random_resized_crop.
//
// Order of changes: random_resized_crop; policies; colours, sharpness, noise (see Jitter); change of place (see Geometry);
// erasing. Colours go first so that what fills the outside keeps the colour it was given.
//
// Flips and shifts by whole pixels are not executed here: the sample's record is edited, and the device executes it together with
// normalisation when the batch lands there. An image larger than the network's input is seen through a window in its middle;
// shifting the window then shows real pixels, and the border rule only begins where they end. Without a network the window is the
// image. Everything else happens here, on the whole image; a record that an earlier stage left is executed first.
//
// Targets take part in every change of place: those of classes by nearest neighbour, filled with their ignored id; those of
// TargetSpec::scale times the size in their own pixels. Nothing else changes them.
//
// Order of draws: flip_x, flip_y, translate.x, translate.y, each always made but where nothing may happen at all; then rotate,
// scale, scale_x, scale_y, shear_x, shear_y; RandomCrop; Policies; Jitter; Erasing. What is not set draws nothing.
// alternating_flip (Jordan, arXiv 2404.00498): a fixed half of the indices, chosen by a hash of (seed, stage, index), is flipped
// in even epochs, the other half in odd ones, so that two epochs in a row see every image both ways. It is no draw of this epoch;
// the sample's hash takes it in as a word of its own, kFlipped or kUnflipped. flip_x is still drawn, and not used.
//
// Threading: parallel.
//
// Errors: fractions of pixels without translate.subpixel, huge shifts, flip_x beside alternating_flip: ErrorKind::usage, in the
// constructor. Images beyond kLargest pixels in height or width: ErrorKind::content (a record's coordinates have 16 bits).
// With targets of several times the size, images and shifts may be as many times smaller; images known to be larger are
// ErrorKind::usage.
class Augment : public SampleTransform {
 public:
  using Params = AugmentParams;
  static constexpr int kLargest = Geometry::kLargest;  // of images and of shifts
  static constexpr std::uint64_t kUnflipped = Geometry::kUnflipped, kFlipped = Geometry::kFlipped;

  static void describe(StageDescription<Params>& description);

  Augment(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool is_random() const override { return !is_idle_; }
  bool changes_pixels() const override { return changes_pixels_; }
  ImageShape image_shape() const override { return crop_ ? crop_->image_shape() : SampleTransform::image_shape(); }

 private:
  void erase(Sample& sample, Draw& draw, ImageShape window) const;

  const bool is_idle_;  // nothing may happen
  Geometry geometry_;
  std::optional<RandomCrop> crop_;
  Policies policies_;
  Jitter jitter_;
  std::optional<Erasing> erasing_;
  bool on_host_;  // anything that needs pixels
  bool changes_pixels_;
  ImageShape window_;
  int target_scale_;
};

}  // namespace millrace
