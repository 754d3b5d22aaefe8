#pragma once

#include <optional>
#include <string>

#include "millrace/stage.h"
#include "millrace/util/resample.h"

namespace millrace {

// Resizes images by antialiased resampling (Pillow's Image.resize until version 11, bit for bit).
//
//   [train.resize]
//   size = [224, 224]     # exactly; or
//   short_side = 256      # the shorter side, the other in proportion
//   filter = "bicubic"    # or "bilinear", "nearest"
//
// Ports: in, out: ImageChunk, uint8. A pending record is executed first, on the whole image. A target is resized the same way;
// class indices always by nearest neighbour.
// Threading: parallel; each thread keeps tables for recent sizes.
// Errors: not exactly one of the two parameters: ErrorKind::usage. A result beyond kLargest pixels in one direction, or beyond
// kMaxPixels with short_side and varying images: ErrorKind::content.
class Resize : public SampleTransform {
 public:
  struct Params {
    std::optional<Size> size;
    std::optional<std::int64_t> short_side;
    std::string filter = "bilinear";
  };
  static constexpr std::int64_t kLargest = 65'535;
  static constexpr std::int64_t kMaxPixels = std::int64_t{64} << 20;  // for images of varying proportions

  static void describe(StageDescription<Params>& description);

  Resize(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool changes_pixels() const override { return !input_.is_static() || result(input_) != input_; }
  ImageShape image_shape() const override;

 private:
  ImageShape result(const ImageShape& from) const;

  Params params_;
  ResampleFilter filter_;
  ImageShape input_, window_;
};

}  // namespace millrace
