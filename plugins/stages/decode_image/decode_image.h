#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "excerpt.h"
#include "image_file.h"
#include "millrace/stage.h"
#include "millrace/util/image_facts.h"

namespace millrace {

// Decodes JPEG and PNG files on the CPU, with libjpeg-turbo and libpng: only the part that becomes the sample.
//
//   [train.decode_image]
//   size     = [32, 32]   # every file has this size; leave it out and add a resize or crop stage otherwise
//   channels = 3          # R, G, B; 1: luminance
//
//   [train.decode_image]                                # the usual training crop: some part of each image, resized
//   size = [224, 224]
//   random_resized_crop = { area = [0.08, 1.0], aspect = [0.75, 1.3333] }
//
//   [validate.decode_image]                             # the usual evaluation crop
//   size       = [224, 224]
//   short_side = 256
//   crop       = "centre"
//
//   [train.decode_image]                                # super-resolution: the source has target_scale = 2 and targets that
//   shrink = "bicubic"                                  # are as large as their images, such as the images themselves
//
// Ports: in, SampleChunk; out, ImageChunk: (height, width, channels) uint8, in the batch's slot if the size is the batch's.
// Samples that hold pixels already (Sample::decoded) are processed the same way. A target of kind `image` is decoded like the
// image; one of kind `classes` exactly, by nearest neighbour where the image is resampled, and its values mapped by
// TargetSpec::classes; RGB pixels are the classes' colours. Both have one size, or the target is TargetSpec::scale times larger;
// the same part is taken from both. With `shrink` both files have one size, and the image becomes TargetSpec::scale times
// smaller; surplus rows and columns at the bottom and right are dropped from both. Photos are turned upright by their EXIF
// orientation, and so are targets of both kinds, each by its own; a warning names the first pair of which only one was turned, if
// the sizes cannot confirm it. Another warns if the first 16-bit images hold values of fewer bits. Sample::source_map() leads to
// the upright image, or the stored one with `exif = false`. Alpha is dropped. A JPEG is decoded at a half, a quarter or an eighth
// of its size if that is still as large as `size`. Order of draws: with random_resized_crop 22 numbers per sample, before the
// file is examined: area and aspect ratio of ten attempts in turn, then row and column. Nothing else draws.
// Threading: parallel; each thread has its own decoders. Errors: inconsistent parameters: ErrorKind::usage. A defect of one file
// (neither JPEG nor PNG, truncated, damaged, too large, of another size than `size` or than its target): ErrorKind::content.
// Files with complete pixels are accepted despite other defects; see the decoders. Out of memory: std::bad_alloc. Source of
// random_resized_crop: torchvision's RandomResizedCrop.
class DecodeImage : public SampleTransform, public KnowsImageFacts {
 public:
  struct Params : ExcerptParams {
    std::int64_t channels = 3;
    std::string shrink = "none";
    bool exif = true;
    std::int64_t max_pixels = std::int64_t{64} << 20;
    std::int64_t max_bytes = std::int64_t{256} << 20;
    std::int64_t max_scans = 100;
    bool allow_warnings = false;
  };
  static void describe(StageDescription<Params>& description);

  DecodeImage(const Params& params, const DataContext& context);
  void process(Sample& sample, Draw& draw) override;
  bool is_random() const override { return rule_.is_random(); }
  ImageShape image_shape() const override { return {rule_.height(), rule_.width(), channels_}; }
  std::size_t memory_bound() const override;
  ImageFacts facts(const Sample& sample) const override;

 private:
  void refuse_announced(const ImageShape& image) const;
  ImageShape open_image(const Sample& sample, ImageFile& file) const;
  void open_target(Sample& sample, ImageFile& file, const ImageShape& image, int image_orientation) const;

  void name_doubtful_turn(const Sample& sample, const ImageShape& image, int of_image, int of_target);
  void name_dark_images(const Sample& sample);
  void check_result(const ImageShape& shape, const Excerpt& largest) const;
  void render_smaller(ImageFile& file, const Excerpt& excerpt, const Image& image) const;

  ExcerptRule rule_;
  ResampleFilter filter_;
  int channels_;
  bool exif_;
  int target_scale_;
  bool shrinks_;
  ResampleFilter shrink_filter_;
  DecodeLimits limits_;
  std::optional<LabelColours> label_colours_;
  RunServices* run_;
  std::string place_;
  std::atomic<bool> named_doubtful_turn_ = false, judges_depth_ = true;
  std::atomic<int> dark_images_ = 0;  // among the 16-bit images
};

}  // namespace millrace
