#include "jitter.h"

#include <optional>

#include "colour.h"
#include "filters.h"
#include "tone.h"

namespace millrace {

namespace {

// A value from the range when the chance comes true.
std::optional<double> drawn(Draw& draw, double chance, const Range& range) {
  if (chance == 0) return {};
  const bool happens = draw.chance(chance);
  const double value = draw.uniform(range.low, range.high);
  return happens ? std::optional(value) : std::nullopt;
}

bool happens(Draw& draw, double chance) { return chance > 0 && draw.chance(chance); }

}  // namespace

Jitter::Jitter(const JitterParams& p)
    : params_(p),
      any_(p.brightness || p.contrast || p.saturation || p.hue || p.greyscale > 0 || p.solarise.chance > 0 ||
           p.posterise.chance > 0 || p.equalise > 0 || p.autocontrast > 0 || p.invert > 0 || p.sharpness.chance > 0 ||
           p.blur.chance > 0 || p.noise.chance > 0) {}

void Jitter::apply(Canvas& canvas, Draw& draw) const {
  recolour(canvas, draw);
  change_levels(canvas, draw);
  filter(canvas, draw);
}

void Jitter::recolour(Canvas& canvas, Draw& draw) const {
  const auto change = [&](const std::optional<Range>& range, void (*recolour_by)(const Image&, double)) {
    if (range) recolour_by(canvas.image(), draw.uniform(range->low, range->high));
  };
  change(params_.brightness, &colour::brightness);
  change(params_.contrast, &colour::contrast);
  change(params_.saturation, &colour::saturation);
  change(params_.hue, &colour::hue);
  if (happens(draw, params_.greyscale)) colour::greyscale(canvas.image());
}

void Jitter::change_levels(Canvas& canvas, Draw& draw) const {
  if (const auto threshold = drawn(draw, params_.solarise.chance, params_.solarise.threshold)) {
    tone::solarise(canvas.image(), *threshold);
  }
  if (params_.posterise.chance > 0) {
    const bool now = draw.chance(params_.posterise.chance);
    const Range& bits = params_.posterise.bits;
    const std::int64_t kept = draw.integer(static_cast<std::int64_t>(bits.low), static_cast<std::int64_t>(bits.high));
    if (now) tone::posterise(canvas.image(), static_cast<int>(kept));
  }
  if (happens(draw, params_.equalise)) tone::equalise(canvas.image());
  if (happens(draw, params_.autocontrast)) tone::autocontrast(canvas.image());
  if (happens(draw, params_.invert)) tone::invert(canvas.image());
}

void Jitter::filter(Canvas& canvas, Draw& draw) const {
  if (const auto factor = drawn(draw, params_.sharpness.chance, params_.sharpness.factor)) {
    canvas.redraw([&](const Image& from, const Image& to) { filters::sharpness(from, *factor, to); });
  }
  if (const auto sigma = drawn(draw, params_.blur.chance, params_.blur.sigma)) {
    filters::blur(canvas.image(), *sigma, canvas.image());
  }
  if (params_.noise.chance == 0) return;
  const auto deviation = drawn(draw, params_.noise.chance, params_.noise.deviation);
  const std::uint64_t upper = draw.bits(), seed = upper << 32 | draw.bits();
  if (deviation) filters::noise(canvas.image(), *deviation, seed);
}

}  // namespace millrace
