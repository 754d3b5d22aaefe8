#include "augment.h"

#include <algorithm>
#include <cmath>

#include "millrace/plugin.h"

namespace millrace {

namespace {

void check_size(const ImageShape& shape, int target_scale, ErrorKind kind = ErrorKind::content) {
  const int largest = Augment::kLargest / target_scale;
  if (std::max(shape.height, shape.width) <= largest) return;
  fail(kind, "the image is {} x {}: augment takes up to {} x {}{}, so resize it first", shape.height, shape.width, largest,
       largest, target_scale == 1 ? "" : fmt::format(" with targets of {} times the size", target_scale));
}

// Warns if a constant is further than `most` from 0: it would apply to all images.
std::string warning_of_constant(const char* key, const std::optional<Range>& range, double neutral, double most) {
  if (!range || range->low != range->high || range->low == neutral || std::abs(range->low) > most) return {};
  const double value = range->low, low = neutral == 0 ? -std::abs(value) : neutral - value,
               high = neutral == 0 ? std::abs(value) : neutral + value;
  return fmt::format("{} = {:g} changes every image alike; a range draws a value for each image, such as {} = [{:g}, {:g}]", key,
                     value, key, low, high);
}

// True if no image changes.
bool leaves_all(const AugmentParams& p) {
  const auto is_zero = [](const Range& shift) { return shift.low == 0 && shift.high == 0; };
  const auto none_set = [](const auto&... values) { return (!values && ...); };
  const auto none_happens = [](const auto&... tables) { return ((!tables || tables->chance == 0) && ...); };
  return none_set(p.flip_x, p.flip_y, p.alternating_flip, p.rotate, p.scale, p.scale_x, p.scale_y, p.shear_x, p.shear_y) &&
         is_zero(p.translate.x) && is_zero(p.translate.y) && none_set(p.random_resized_crop, p.rand_augment, p.trivial_augment) &&
         none_set(p.brightness, p.contrast, p.saturation, p.hue, p.greyscale, p.equalise, p.autocontrast, p.invert) &&
         none_happens(p.solarise, p.posterise, p.sharpness, p.blur, p.noise, p.erase);
}

// In other tools, one number means a range.
void warn_of_constants(const Augment::Params& params, const StageSite& site) {
  if (site.run == nullptr) return;
  constexpr double kSmallTurn = 45, kBelowOne = 0.999, kHalf = 0.5;
  const auto warn_of = [&site](const char* key, const std::optional<Range>& range, double neutral, double most) {
    const std::string text = warning_of_constant(key, range, neutral, most);
    if (!text.empty()) site.run->warn(fmt::format("{}: {}", site.place(), text));
  };
  warn_of("translate.x", params.translate.x, 0, Augment::kLargest);
  warn_of("translate.y", params.translate.y, 0, Augment::kLargest);
  warn_of("rotate", params.rotate, 0, kSmallTurn);
  warn_of("scale", params.scale, 1, kHalf);
  warn_of("scale_x", params.scale_x, 1, kHalf);
  warn_of("scale_y", params.scale_y, 1, kHalf);
  warn_of("shear_x", params.shear_x, 0, kSmallTurn);
  warn_of("shear_y", params.shear_y, 0, kSmallTurn);
  warn_of("brightness", params.brightness, 1, kBelowOne);
  warn_of("contrast", params.contrast, 1, kBelowOne);
  warn_of("saturation", params.saturation, 1, kBelowOne);
  warn_of("hue", params.hue, 0, 1);
}

// Warns of noise that suits pixels of 0 ... 1.
void warn_of_little_noise(const Augment::Params& params, const StageSite& site) {
  if (site.run == nullptr || !params.noise || params.noise->chance == 0 || params.noise->deviation.high >= 1) return;
  site.run->warn(fmt::format("{}: noise.deviation is at most {:g} of 255 grey levels, which hardly changes a pixel", site.place(),
                             params.noise->deviation.high));
}

}  // namespace

void Augment::describe(StageDescription<Params>& d) {
  d.name("augment")
      .text("Random image changes: geometry, colour, sharpness, noise, erased boxes.")
      .in_recipes(RecipeRole::preparation)
      .example("flip_x = 0.5\nflip_y = 0.5\ntranslate = { x = [-2, 2], y = [-2, 2] }\nborder = 'reflect'")
      .example("rotate = [-15, 15]\nscale = [0.8, 1.2]\nerase = { chance = 0.5 }");
  millrace::describe(d.params);
}

Augment::Augment(const Params& params, const DataContext& context)
    : is_idle_(leaves_all(params)),
      geometry_(params, context.image.channels, combine(context.seed, hash_text(context.name + " alternating flip")),
                context.target.scale),
      policies_(params),
      jitter_(params),
      window_(context.window),
      target_scale_(context.target.scale) {
  if (params.random_resized_crop) crop_.emplace(*params.random_resized_crop, context.image, target_scale_);
  if (params.erase) erasing_.emplace(*params.erase, geometry_.outside());
  if (target_scale_ > 1) {
    check_size(context.image, target_scale_, ErrorKind::usage);
    check_size(context.window, target_scale_, ErrorKind::usage);
  }
  changes_pixels_ = geometry_.may_warp() || crop_ || policies_.any() || jitter_.any() || (erasing_ && params.erase->chance > 0);
  on_host_ = changes_pixels_ || erasing_;  // erasing draws even so
  if (is_idle_) changes_pixels_ = on_host_ = false;
  warn_of_constants(params, context);
  warn_of_little_noise(params, context);
}

void Augment::process(Sample& sample, Draw& draw) {
  const auto window = [&] { return window_.is_static() ? window_ : sample.image().shape; };
  check_size(sample.image().shape, target_scale_);
  check_size(window_, target_scale_);
  const Geometry::Placement placement = is_idle_ ? Geometry::Placement{} : geometry_.draw(sample, draw);
  if (on_host_) {
    execute_pending(sample, window());
    if (crop_) crop_->apply(sample, draw);
    Canvas canvas(sample, geometry_.outside());
    policies_.apply(canvas, draw);
    jitter_.apply(canvas, draw);
  }
  geometry_.place(sample, placement, window());
  if (erasing_ && !is_idle_) erase(sample, draw, window());
}

void Augment::erase(Sample& sample, Draw& draw, ImageShape window) const {
  const ImageShape shape = sample.image().shape;
  const ImageShape seen{std::min(shape.height, window.height), std::min(shape.width, window.width), shape.channels};
  const Erasing::Boxes& boxes = erasing_->draw(draw, seen);
  if (!boxes.happens) return;
  execute_pending(sample, window);
  erasing_->apply(sample.change_colours(), boxes, seen);
}

}  // namespace millrace

MILLRACE_PLUGIN("augment", "2.0", "Random changes of images; flips and shifts are executed on the device.") {
  registry.add_stage<millrace::Augment>();
}
