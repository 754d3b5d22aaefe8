#include "jitter.h"

#include <cmath>
#include <optional>

#include "colour.h"
#include "filters.h"
#include "millrace/error.h"
#include "tone.h"

namespace millrace {

namespace {

// A value from the table's range if the table is set and its chance comes true.
template <class Table>
std::optional<double> drawn(Draw& draw, const std::optional<Table>& table, Range Table::*range) {
  if (!table) return {};
  const bool happens = draw.chance(table->chance);
  const Range& values = (*table).*range;
  const double value = draw.uniform(values.low, values.high);
  return happens ? std::optional(value) : std::nullopt;
}

bool happens(Draw& draw, double chance) { return chance > 0 && draw.chance(chance); }

}  // namespace

Jitter::Jitter(const JitterParams& p)
    : params_(p),
      any_(p.brightness || p.contrast || p.saturation || p.hue || p.greyscale > 0 || p.solarise || p.posterise ||
           p.equalise > 0 || p.autocontrast > 0 || p.invert > 0 || p.sharpness || p.blur || p.noise) {
  if (!p.posterise) return;
  const Range& bits = p.posterise->bits;
  if (bits.low != std::floor(bits.low) || bits.high != std::floor(bits.high)) {
    fail(ErrorKind::usage, "posterise.bits: expected whole numbers, found [{}, {}]", bits.low, bits.high);
  }
}

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
  if (const auto threshold = drawn(draw, params_.solarise, &JitterParams::Solarise::threshold)) {
    tone::solarise(canvas.image(), *threshold);
  }
  if (params_.posterise) {
    const bool now = draw.chance(params_.posterise->chance);
    const Range& bits = params_.posterise->bits;
    const std::int64_t kept = draw.integer(static_cast<std::int64_t>(bits.low), static_cast<std::int64_t>(bits.high));
    if (now) tone::posterise(canvas.image(), static_cast<int>(kept));
  }
  if (happens(draw, params_.equalise)) tone::equalise(canvas.image());
  if (happens(draw, params_.autocontrast)) tone::autocontrast(canvas.image());
  if (happens(draw, params_.invert)) tone::invert(canvas.image());
}

void Jitter::filter(Canvas& canvas, Draw& draw) const {
  if (const auto factor = drawn(draw, params_.sharpness, &JitterParams::Sharpness::factor)) {
    canvas.redraw([&](const ImageView& from, const Image& to) { filters::sharpness(from, *factor, to); });
  }
  if (const auto sigma = drawn(draw, params_.blur, &JitterParams::Blur::sigma)) {
    filters::blur(canvas.image(), *sigma, canvas.image());
  }
  if (!params_.noise) return;
  const auto deviation = drawn(draw, params_.noise, &JitterParams::Noise::deviation);
  const std::uint64_t upper = draw.bits(), seed = upper << 32 | draw.bits();
  if (deviation) filters::noise(canvas.image(), *deviation, seed);
}

}  // namespace millrace
