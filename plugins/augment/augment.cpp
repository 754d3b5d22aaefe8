#include "augment.h"

#include <algorithm>
#include <cmath>

#include "millrace/plugin.h"

namespace millrace {

void Augment::describe(StageDescription<Params>& d) {
  d.name("augment").text("Flips and shifts images at random.");
  d.params.add("flip_x", &Params::flip_x).range(0, 1).text("chance of mirroring left and right");
  d.params.add("flip_y", &Params::flip_y).range(0, 1).text("chance of mirroring top and bottom");
  d.params.add("alternating_flip", &Params::alternating_flip)
      .text("mirror half of the images in even epochs and the other half in odd ones, instead of flip_x");
  d.params
      .add_table("translate", &Params::translate,
                 [](ParamSet<Translate>& set) {
                   set.add("x", &Translate::x).unit("pixels").text("to the right; from ... to, both included");
                   set.add("y", &Translate::y).unit("pixels").text("down; from ... to, both included");
                 })
      .text("random shift, whole pixels");
  d.params.add("border", &Params::border)
      .choices({"constant", "reflect", "edge"})
      .text("what lies outside the image: `fill`, the image mirrored about its edge pixels, or the edge pixels");
  d.params.add("fill", &Params::fill).text("0 ... 255; one for all channels or one for each");
}

Augment::Augment(const Params& params, const StageContext& context)
    : flip_x_(params.flip_x),
      flip_y_(params.flip_y),
      alternating_(params.alternating_flip),
      halves_(combine(context.seed, hash_text(context.name + " alternating flip"))),
      x_(whole_pixels(params.translate.x, "translate.x")),
      y_(whole_pixels(params.translate.y, "translate.y")),
      border_(params.border == "reflect" ? Border::reflect
              : params.border == "edge"  ? Border::edge
                                         : Border::constant),
      window_(context.window) {
  if (alternating_ && flip_x_ > 0) fail(ErrorKind::usage, "alternating_flip and flip_x both mirror left and right: choose one");
  set_fill(params.fill);
}

Augment::Pixels Augment::whole_pixels(const Range& range, const char* name) {
  const bool whole = range.low == std::floor(range.low) && range.high == std::floor(range.high);
  if (!whole) fail(ErrorKind::usage, "{}: expected whole pixels, found [{}, {}]", name, range.low, range.high);
  if (range.low > range.high || range.low < -kLargest || range.high > kLargest) {
    fail(ErrorKind::usage, "{}: expected [from, to] within {} and {}, found [{}, {}]", name, -kLargest, kLargest, range.low,
         range.high);
  }
  return {static_cast<std::int64_t>(range.low), static_cast<std::int64_t>(range.high)};
}

void Augment::set_fill(const std::vector<std::int64_t>& fill) {
  if (fill.empty() || fill.size() > std::size(fill_)) {
    fail(ErrorKind::usage, "fill: expected one value, or one for each channel, found {}", fill.size());
  }
  for (std::size_t channel = 0; channel < std::size(fill_); ++channel) {
    const std::int64_t value = fill.size() == 1 ? fill[0] : channel < fill.size() ? fill[channel] : 0;
    if (value < 0 || value > 255) fail(ErrorKind::usage, "fill: expected 0 ... 255, found {}", value);
    fill_[channel] = static_cast<std::uint8_t>(value);
  }
}

void Augment::process(Sample& sample, Draw& draw) {
  const ImageShape& shape = sample.image().shape;
  const ImageShape window = window_.is_static() ? window_ : shape;
  if (std::max({shape.height, shape.width, window.height, window.width}) > kLargest) {
    fail(ErrorKind::content, "the image is {} x {}: augment takes up to {} x {}, so resize it before", shape.height, shape.width,
         kLargest, kLargest);
  }
  bool mirror = draw.chance(flip_x_);
  const bool upside_down = draw.chance(flip_y_);
  const auto dx = static_cast<int>(draw.integer(x_.low, x_.high));
  const auto dy = static_cast<int>(draw.integer(y_.low, y_.high));
  if (alternating_) {
    mirror = ((combine(halves_, sample.key.index) ^ sample.key.epoch) & 1U) != 0;
    sample.hash = combine(sample.hash, mirror ? kFlipped : kUnflipped);
  }

  AugmentationRecord& record = sample.record;
  sample.place_window(window);
  record.border = border_;
  std::copy(std::begin(fill_), std::end(fill_), std::begin(record.fill));
  if (mirror) record.flip_x(window.width);
  if (upside_down) record.flip_y(window.height);
  record.translate(dx, dy);
}

}  // namespace millrace

MILLRACE_PLUGIN("augment", "1.0", "Random flips and shifts, executed on the device.") { registry.add_stage<millrace::Augment>(); }
