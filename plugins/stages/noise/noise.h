#pragma once

#include <cstdint>

#include "millrace/stage.h"

namespace millrace {

// Adds Gaussian noise to images, for networks that learn to remove it. The target stays clean.
//
//   [train]
//   flow = ["read", "decode_image", "crop", "augment", "noise", "batch", ...]
//   [train.noise]
//   deviation = 25          # grey levels; [0, 55]: drawn evenly for each image
//
// The noise is added when the network reads the image, to float values without bounds, as in the papers on denoising: pixels are
// neither rounded nor clamped to 0 ... 255. `noise` of `augment`, in contrast, changes pixels. Stages that read pixels, such as
// write_masks with an overlay, get them without noise.
//
// Ports: in, out: ImageChunk. Anywhere before `batch`, but not before a cache (an error): caches hold images without noise. Order
// of draws: the deviation, unless it is one number; one word of seed. With every_epoch = false they come from a generator of
// (seed, the sample's index, the stage's name) and are the same in all passes.
class Noise : public SampleTransform {
 public:
  struct Params {
    Range deviation;
    bool every_epoch = true;
  };
  static void describe(StageDescription<Params>& d);
  Noise(const Params& params, const StageSite& site);

  using SampleTransform::process;
  void process(Sample& sample, Draw& draw) override;
  bool is_random() const override { return true; }

 private:
  const Params params_;
  const std::uint64_t seed_, name_hash_;
};

}  // namespace millrace
