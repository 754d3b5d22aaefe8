#include "canvas.h"

#include <algorithm>

namespace millrace {

void Canvas::warp(const AffineMap& from_source) {
  const AffineMap to_source = from_source.inverse();
  if (sample_.target().data != nullptr) {
    const bool classes = sample_.target_spec().kind == TargetSpec::Kind::classes;
    const Image from = sample_.target(), to = sample_.new_target(from.shape);
    std::uint8_t ignored[4];
    std::fill(std::begin(ignored), std::end(ignored), sample_.target_spec().ignored);
    warp_affine(to_source, from, classes ? Interpolation::nearest : outside_.interpolation, outside_.border,
                classes ? ignored : outside_.fill, to);
    sample_.set_target(to);
  }
  redraw([&](const ImageView& from, const Image& to) {
    warp_affine(to_source, from, outside_.interpolation, outside_.border, outside_.fill, to);
  });
}

void execute_record(Sample& sample, ImageShape window) {
  const ImageShape shape = sample.image().shape;
  AugmentationRecord& record = sample.record;
  if (sample.windowed) {  // from the window's first pixel to the image's
    record.x = static_cast<std::int16_t>(record.x - record.step_x * ((shape.width - window.width) >> 1));
    record.y = static_cast<std::int16_t>(record.y - record.step_y * ((shape.height - window.height) >> 1));
    sample.windowed = false;
  }
  sample.apply_pending(shape);
}

}  // namespace millrace
