#include "canvas.h"

#include <algorithm>

namespace millrace {

void Canvas::warp(const AffineMap& from_source) {
  const AffineMap to_source = from_source.inverse();
  if (sample_.target().data != nullptr) warp_target(to_source);
  const auto draw = [&](const ImageView& from, const Image& to) {
    warp_affine(to_source, from, outside_.interpolation, outside_.border, outside_.fill, to);
  };
  redraw(draw, to_source);
}

void Canvas::warp_target(const AffineMap& to_source) {
  const TargetSpec& spec = sample_.target_spec();
  const bool classes = spec.kind == TargetSpec::Kind::classes;
  const Image from = sample_.target(), to = sample_.new_target(from.shape);
  std::uint8_t ignored[4];
  std::fill(std::begin(ignored), std::end(ignored), spec.ignored);
  const double middle = 0.5 * (spec.scale - 1);  // centre of the area that the image's first pixel covers
  const AffineMap to_target = AffineMap::scale(spec.scale, spec.scale).then(AffineMap::translation(middle, middle));
  warp_affine(to_target.inverse().then(to_source).then(to_target), from,
              classes ? Interpolation::nearest : outside_.interpolation, outside_.border, classes ? ignored : outside_.fill, to,
              spec.scale);
  sample_.set_target(to);
}

}  // namespace millrace
