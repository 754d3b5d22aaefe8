// What is to be done to an image when it reaches its device. Part of sample.h.
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

// What `augment` leaves to the device: the pixel that the network sees at (row i, column j) is the stored one at
// (y + step_y * i, x + step_x * j); the border rule says what lies outside. Plain data, copied to devices.
struct AugmentationRecord {
  std::int16_t x = 0, y = 0;
  std::int8_t step_x = 1, step_y = 1;  // 1 or -1
  Border border = Border::constant;
  std::uint8_t fill[4] = {0, 0, 0, 0};  // per channel, for Border::constant
  std::uint8_t scale = 1;               // of a target's record: TargetSpec::scale. Border::reflect mirrors by its image's pixels
  // Deviation of Gaussian noise, in grey levels, that the device adds in float to what the network sees:
  // normal_deviate(noise_seed, (row * width + column) * channels + channel), in the window. Not in apply_record(), nor in a
  // target's record. 0: none.
  float noise = 0;
  std::uint32_t noise_seed = 0;

  void flip_x(int width);  // mirrors what the network sees, left and right; width of the window
  void flip_y(int height);
  void translate(int dx, int dy);  // moves what the network sees by dx to the right and dy down
  // From pixels of the window to stored pixels.
  AffineMap to_stored() const { return {double(step_x), 0, double(x), 0, double(step_y), double(y)}; }
  bool is_identity() const { return x == 0 && y == 0 && step_x == 1 && step_y == 1; }
};

// The one reference of ingest: executes a record on the host. Backends are tested against it.
// `out` is (window.height, window.width, C); REQUIRES: image.shape.channels == window.channels <= 4.
void apply_record(const AugmentationRecord& record, const ImageView& image, ImageShape window, std::uint8_t* out);

// The record by which a target follows its image: the same, in the target's pixels, but for what fills the outside.
// REQUIRES: `scale` times the record's coordinates are within 16 bits, which stages that edit records see to.
AugmentationRecord target_record(const AugmentationRecord& record, const TargetSpec& target);

}  // namespace millrace
