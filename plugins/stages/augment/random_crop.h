#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "millrace/util/resample.h"
#include "parameters.h"

namespace millrace {

// torchvision's RandomResizedCrop for decoded images: a part of random area and aspect ratio, resized. After ten failed attempts
// it takes the largest centred part with an allowed aspect ratio. The target gets the same crop; class targets by nearest
// neighbour. decode_image offers the same crop and decodes less. Draws 22 numbers per sample: area and aspect ratio of ten
// attempts in turn, then row and column.
class RandomCrop {
 public:
  RandomCrop(const CropParams& params, ImageShape input, int target_scale = 1);  // errors: ErrorKind::usage
  ImageShape image_shape() const { return output_; }                             // the same for every image

  void apply(Sample& sample, Draw& draw) const;

 private:
  struct Part {
    int top = 0, left = 0, height = 0, width = 0;
    Part scaled(int scale) const { return {top * scale, left * scale, height * scale, width * scale}; }
  };
  Part draw_part(Draw& draw, ImageShape shape) const;
  void resample(const ImageView& image, const Part& part, ResampleFilter filter, const Image& out) const;

  CropParams params_;
  ResampleFilter filter_;
  ImageShape output_;
};

}  // namespace millrace
