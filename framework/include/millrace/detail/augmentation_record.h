// Augmentation that an image's device executes. Part of sample.h.
#pragma once

#include <cstdint>

#include "millrace/detail/affine_map.h"
#include "millrace/detail/tensor.h"

namespace millrace {

struct ImageView;
struct TargetSpec;

enum class Border : std::uint8_t {
  constant,  // the fill value
  reflect,   // mirrored about the edge pixel, which is not repeated: 2 1 | 0 1 2
  edge,      // the edge pixel repeated
};

// The part of `augment` that is left to the device: the network's pixel at (row i, column j) is the stored pixel at (y + step_y *
// i, x + step_x * j); the border rule fills the outside. Plain data, copied to devices.
struct AugmentationRecord {
  std::int16_t x = 0, y = 0;
  std::int8_t step_x = 1, step_y = 1;  // 1 or -1
  Border border = Border::constant;
  std::uint8_t fill[4] = {0, 0, 0, 0};  // per channel, for Border::constant
  std::uint8_t scale = 1;               // in a target's record: TargetSpec::scale. Border::reflect mirrors by the pixels of its
                                        // image
  // Standard deviation of Gaussian noise, in grey levels, that the device adds in float to the network's input:
  // normal_deviate(noise_seed, (row * width + column) * channels + channel), in the window. Not applied by apply_record(), nor to
  // targets. 0: none.
  float noise = 0;
  std::uint32_t noise_seed = 0;

  void flip_x(int width);  // mirrors the network's input left and right; `width` of the window
  void flip_y(int height);
  void translate(int dx, int dy);  // moves the network's input by dx to the right and dy down
  // Maps pixels of the window to stored pixels.
  AffineMap to_stored() const { return {double(step_x), 0, double(x), 0, double(step_y), double(y)}; }
  bool is_identity() const { return x == 0 && y == 0 && step_x == 1 && step_y == 1; }
};

// Executes a record on the host. This is the reference implementation of ingest, against which backends are tested. `out` is
// (window.height, window.width, C); REQUIRES: image.shape.channels == window.channels <= 4.
void apply_record(const AugmentationRecord& record, const ImageView& image, ImageShape window, std::uint8_t* out);

// The record that makes a target follow its image: the same in the target's pixels, except for the fill outside.
// REQUIRES: `scale` times the record's coordinates fit in 16 bits, as stages that edit records ensure.
AugmentationRecord target_record(const AugmentationRecord& record, const TargetSpec& target);

}  // namespace millrace
