#pragma once

#include <optional>

#include "jpeg_decoder.h"
#include "millrace/stage.h"

namespace millrace {

// Decodes JPEG files on the CPU with libjpeg-turbo.
//
//   [train.decode_image]
//   size     = [32, 32]   # every file has this size; leave it out and add a resize or crop stage otherwise
//   channels = 3          # R, G, B; 1: luminance
//
// Ports: in, SampleChunk; out, ImageChunk: (height, width, channels) uint8, in the batch's slot where the size is the batch's.
// The orientation that a camera noted in EXIF is not applied.
// Threading: parallel; each thread has a decompressor of its own.
// Errors: ErrorKind::content for whatever is wrong with one file: no JPEG, truncated, damaged, too large, of another size.
class DecodeImage : public SampleTransform {
 public:
  struct Params {
    std::int64_t channels = 3;
    std::optional<Size> size;
    std::int64_t max_pixels = std::int64_t{64} << 20;
    std::int64_t max_scans = 100;
    bool allow_warnings = false;
  };
  static void describe(StageDescription<Params>& description);

  DecodeImage(const Params& params, const StageContext& context);
  void process(Sample& sample, Draw& draw) override;
  ImageShape image_shape() const override { return shape_; }
  std::size_t memory_bound() const override;

 private:
  JpegLimits limits_;
  ImageShape shape_;  // height and width 0 when any is welcome
};

}  // namespace millrace
