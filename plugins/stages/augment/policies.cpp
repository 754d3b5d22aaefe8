#include "policies.h"

#include <cmath>
#include <numbers>

#include "colour.h"
#include "filters.h"
#include "millrace/error.h"
#include "tone.h"

namespace millrace {

namespace {

enum class Kind {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  saturation,
  contrast,
  sharpness,
  posterise,
  solarise,
  autocontrast,
  equalise,
};

// Magnitudes are evenly spaced from `first` to `last`.
struct Operation {
  Kind kind;
  double first = 0, last = 0;
  bool has_sign = false;
  bool has_magnitude() const { return first != last; }
};

// Strengths in RandAugment. Translations are fractions of the width or height; posterise removes bits.
constexpr Operation kRandAugment[] = {
    {Kind::identity},
    {Kind::shear_x, 0, 0.3, true},
    {Kind::shear_y, 0, 0.3, true},
    {Kind::translate_x, 0, 150.0 / 331, true},
    {Kind::translate_y, 0, 150.0 / 331, true},
    {Kind::rotate, 0, 30, true},
    {Kind::brightness, 0, 0.9, true},
    {Kind::saturation, 0, 0.9, true},
    {Kind::contrast, 0, 0.9, true},
    {Kind::sharpness, 0, 0.9, true},
    {Kind::posterise, 0, 4},
    {Kind::solarise, 255, 0},
    {Kind::autocontrast},
    {Kind::equalise},
};
constexpr Operation kTrivialAugment[] = {
    {Kind::identity},
    {Kind::shear_x, 0, 0.99, true},
    {Kind::shear_y, 0, 0.99, true},
    {Kind::translate_x, 0, 32, true},  // pixels
    {Kind::translate_y, 0, 32, true},
    {Kind::rotate, 0, 135, true},
    {Kind::brightness, 0, 0.99, true},
    {Kind::saturation, 0, 0.99, true},
    {Kind::contrast, 0, 0.99, true},
    {Kind::sharpness, 0, 0.99, true},
    {Kind::posterise, 0, 6},
    {Kind::solarise, 255, 0},
    {Kind::autocontrast},
    {Kind::equalise},
};
constexpr std::int64_t kOperations = std::size(kRandAugment);
static_assert(std::size(kTrivialAugment) == kOperations);
constexpr std::int64_t kTrivialBins = 31;

double magnitude(const Operation& operation, std::int64_t bin, std::int64_t bins) {
  return operation.first + (operation.last - operation.first) * static_cast<double>(bin) / static_cast<double>(bins - 1);
}

void change_place(Canvas& canvas, Kind kind, double m) {
  const ImageShape& shape = canvas.image().shape;
  const double degrees = std::atan(m) * 180 / std::numbers::pi;
  switch (kind) {
    case Kind::shear_x: return canvas.warp(AffineMap::shear(degrees, 0).about(-0.5, -0.5));
    case Kind::shear_y: return canvas.warp(AffineMap::shear(0, degrees).about(-0.5, -0.5));
    case Kind::translate_x: return canvas.warp(AffineMap::translation(std::trunc(m), 0));
    case Kind::translate_y: return canvas.warp(AffineMap::translation(0, std::trunc(m)));
    default: return canvas.warp(AffineMap::rotation(m).about(0.5 * (shape.width - 1), 0.5 * (shape.height - 1)));
  }
}

void apply_operation(Canvas& canvas, Kind kind, double m) {
  const Image& image = canvas.image();
  switch (kind) {
    case Kind::identity: return;
    case Kind::brightness: return colour::brightness(image, 1 + m);
    case Kind::saturation: return colour::saturation(image, 1 + m);
    case Kind::contrast: return colour::contrast(image, 1 + m);
    case Kind::sharpness:
      return canvas.redraw([m](const ImageView& from, const Image& to) { filters::sharpness(from, 1 + m, to); });
    case Kind::posterise:
      return tone::posterise(image, 8 - static_cast<int>(std::nearbyint(m)));  // rounds half to even, like torch.round
    case Kind::solarise: return tone::solarise(image, m);
    case Kind::autocontrast: return tone::autocontrast(image);
    case Kind::equalise: return tone::equalise(image);
    default:
      if (m != 0) change_place(canvas, kind, m);
  }
}

}  // namespace

Policies::Policies(const PolicyParams& params) : params_(params) {
  const auto& rand = params.rand_augment;
  if (!rand || rand->magnitude < rand->bins) return;
  fail(ErrorKind::usage, "rand_augment.magnitude: expected 0 ... {}, one of {} bins, found {}", rand->bins - 1, rand->bins,
       rand->magnitude);
}

void Policies::apply(Canvas& canvas, Draw& draw) const {
  const auto run = [&](const Operation& operation, double m) {
    if (operation.has_sign && draw.chance(0.5)) m = -m;
    apply_operation(canvas, operation.kind, m);
  };
  const auto& rand = params_.rand_augment;
  for (std::int64_t i = 0; rand && i < rand->operations; ++i) {
    const Operation& operation = kRandAugment[draw.integer(0, kOperations - 1)];
    double m = magnitude(operation, rand->magnitude, rand->bins);
    if (operation.kind == Kind::translate_x) m *= canvas.image().shape.width;
    if (operation.kind == Kind::translate_y) m *= canvas.image().shape.height;
    run(operation, m);
  }
  if (!params_.trivial_augment) return;
  const Operation& operation = kTrivialAugment[draw.integer(0, kOperations - 1)];
  run(operation, operation.has_magnitude() ? magnitude(operation, draw.integer(0, kTrivialBins - 1), kTrivialBins) : 0);
}

}  // namespace millrace
