#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "millrace/stage.h"

namespace millrace {

// Puts a margin around every image.
//
//   [train.pad]
//   size   = [512, 512]   # pads evenly to this size; or
//   margin = 4            # rows above and below, columns on the left and right: [rows, columns] or one number for both
//   fill   = [124, 116, 104]
//
// Ports: in, out: ImageChunk, uint8. A pending record is executed first, on the whole image. A target gets the same margin,
// filled with the ignored id in class targets. If the difference to `size` is odd, the larger half goes to the bottom and right.
// Threading: parallel.
// Errors: not exactly one of `size` and `margin`, images known to be larger than `size`: ErrorKind::usage, in the constructor; a
// larger image, or a result or target beyond kLargest pixels in height or width: ErrorKind::content.
class Pad : public SampleTransform {
 public:
  struct Params {
    std::optional<Size> size, margin;
    std::string border = "constant";
    std::vector<std::int64_t> fill = {0};
  };
  static constexpr std::int32_t kLargest =
      12'000;  // pixels, for a result and its target: an augmentation record's coordinates have 16 bits

  static void describe(StageDescription<Params>& description);

  Pad(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool changes_pixels() const override { return !input_.is_static() || result(input_) != input_; }
  ImageShape image_shape() const override;

 private:
  ImageShape result(const ImageShape& from) const;  // errors: ErrorKind::content

  std::optional<Size> size_, margin_;
  Border border_;
  std::array<std::uint8_t, 4> fill_;
  ImageShape input_, window_;
  int target_scale_;
};

}  // namespace millrace
