#include "geometry.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "millrace/error.h"
#include "millrace/util/centre.h"

namespace millrace {

namespace {

Outside make_outside(const GeometryParams& params, int channels) {
  Outside outside{.border = border_named(params.border),
                  .interpolation = params.interpolation == "nearest"   ? Interpolation::nearest
                                   : params.interpolation == "bicubic" ? Interpolation::bicubic
                                                                       : Interpolation::bilinear};
  const auto fill = fill_colour(params.fill, channels);
  std::copy(fill.begin(), fill.end(), std::begin(outside.fill));
  return outside;
}

// True if the record's border rule fills part of the window.
bool shows_outside(const Sample& sample, ImageShape window) {
  if (!sample.windowed) return false;
  const AugmentationRecord& record = sample.record;
  const ImageShape image = sample.image().shape;
  const auto leaves = [](int first, int step, int count, int extent) {
    const int last = first + step * (count - 1);
    return std::min(first, last) < 0 || std::max(first, last) >= extent;
  };
  return leaves(record.x, record.step_x, window.width, image.width) ||
         leaves(record.y, record.step_y, window.height, image.height);
}

// True if the record can hold the placement: its coordinates and those of its target have 16 bits.
bool has_room(const Sample& sample, const Geometry::Placement& placement, ImageShape window) {
  const AugmentationRecord& record = sample.record;
  const ImageShape image = sample.image().shape;
  const auto farthest = [&](int at, int extent, int shown, double shift) {
    return std::abs(at) + (sample.windowed ? 0 : std::abs(centred(extent, shown))) + shown + std::abs(shift);
  };
  const double most = std::max(farthest(record.x, image.width, window.width, placement.dx),
                               farthest(record.y, image.height, window.height, placement.dy));
  return most * sample.target_spec().scale <= std::numeric_limits<std::int16_t>::max();
}

}  // namespace

Geometry::Geometry(const GeometryParams& params, int channels, std::uint64_t halves, int target_scale)
    : params_(params),
      outside_(make_outside(params, channels)),
      shapes_(params.rotate || params.scale || params.scale_x || params.scale_y || params.shear_x || params.shear_y),
      halves_(halves) {
  check_shift(params.translate.x, "translate.x", kLargest / target_scale);
  check_shift(params.translate.y, "translate.y", kLargest / target_scale);
  if (params.alternating_flip && params.flip_x > 0) {
    fail(ErrorKind::usage, "alternating_flip and flip_x both mirror left and right: choose one");
  }
}

void Geometry::check_shift(const Range& range, const char* name, int most) const {
  const bool whole = range.low == std::floor(range.low) && range.high == std::floor(range.high);
  if (!whole && !params_.translate.subpixel) {
    fail(ErrorKind::usage, "{}: expected whole pixels, found [{}, {}]; translate.subpixel = true allows fractions", name,
         range.low, range.high);
  }
  if (range.low > range.high || range.low < -most || range.high > most) {
    fail(ErrorKind::usage, "{}: expected [from, to] within {} and {}, found [{}, {}]", name, -most, most, range.low, range.high);
  }
}

AffineMap Geometry::draw_shape(Draw& draw) const {
  const auto drawn = [&draw](const std::optional<Range>& range, double neutral) {
    return range ? draw.uniform(range->low, range->high) : neutral;
  };
  const double degrees = drawn(params_.rotate, 0);
  const double both = drawn(params_.scale, 1);
  const double x = both * drawn(params_.scale_x, 1), y = both * drawn(params_.scale_y, 1);
  const double shear_x = drawn(params_.shear_x, 0), shear_y = drawn(params_.shear_y, 0);
  return AffineMap::scale(x, y)
      .then(AffineMap::shear(shear_x, 0))
      .then(AffineMap::shear(0, shear_y))
      .then(AffineMap::rotation(degrees));
}

Geometry::Placement Geometry::draw(Sample& sample, Draw& draw) const {
  Placement placement;
  const auto shift = [&](const Range& range) {
    if (params_.translate.subpixel) return draw.uniform(range.low, range.high);
    return static_cast<double>(draw.integer(static_cast<std::int64_t>(range.low), static_cast<std::int64_t>(range.high)));
  };
  placement.flip_x = draw.chance(params_.flip_x);
  placement.flip_y = draw.chance(params_.flip_y);
  placement.dx = shift(params_.translate.x);
  placement.dy = shift(params_.translate.y);
  if (params_.alternating_flip) {
    placement.flip_x = ((combine(halves_, sample.key.index) ^ sample.key.epoch) & 1U) != 0;
    sample.hash = combine(sample.hash, placement.flip_x ? kFlipped : kUnflipped);
  }
  if (shapes_) placement.shape = draw_shape(draw);
  const AffineMap& shape = placement.shape;
  placement.warps = placement.dx != std::floor(placement.dx) || placement.dy != std::floor(placement.dy) || shape.xx != 1 ||
                    shape.xy != 0 || shape.yx != 0 || shape.yy != 1;
  return placement;
}

void Geometry::place(Sample& sample, const Placement& placement, ImageShape window) const {
  const ImageShape shape = sample.image().shape;
  if (placement.warps) {
    Canvas canvas(sample, outside_);
    canvas.warp(AffineMap::scale(placement.flip_x ? -1 : 1, placement.flip_y ? -1 : 1)
                    .then(placement.shape)
                    .about(0.5 * (shape.width - 1), 0.5 * (shape.height - 1))
                    .then(AffineMap::translation(placement.dx, placement.dy)));
    return;
  }
  AugmentationRecord& record = sample.record;
  const bool is_other = record.border != outside_.border || !std::equal(outside_.fill, outside_.fill + 4, record.fill);
  const bool is_filled = is_other && shows_outside(sample, window);  // keeps pixels that are filled already
  if (is_filled || !has_room(sample, placement, window)) execute_pending(sample, window);
  place_window(sample, window);
  record.border = outside_.border;
  std::copy(std::begin(outside_.fill), std::end(outside_.fill), std::begin(record.fill));
  if (placement.flip_x) record.flip_x(window.width);
  if (placement.flip_y) record.flip_y(window.height);
  record.translate(static_cast<int>(placement.dx), static_cast<int>(placement.dy));
}

}  // namespace millrace
