#include "pad.h"

#include <algorithm>

#include "millrace/plugin.h"
#include "millrace/util/affine.h"

namespace millrace {

void Pad::describe(StageDescription<Params>& d) {
  d.name("pad")
      .text("Pads every image with a margin.")
      .in_recipes(RecipeRole::preparation)
      .example("size = [12, 10]")
      .example("margin = [1, 2]\nborder = 'reflect'", {6, 6, 1});
  d.params.add("size", &Params::size)
      .range(1, kLargest)
      .unit("pixels")
      .text("output size, [height, width]; centres the image")
      .in_recipes();
  d.params.add("margin", &Params::margin)
      .range(0, kLargest)
      .unit("pixels")
      .text("[rows above and below, columns left and right]; instead of `size`")
      .in_recipes();
  d.params.add("border", &Params::border)
      .choices({"constant", "reflect", "edge"})
      .text("margin content: `fill`, reflection about the edge pixels, or the edge pixels")
      .in_recipes();
  d.params.add("fill", &Params::fill).text("0 ... 255; one for all channels or one per channel").in_recipes();
}

Pad::Pad(const Params& params, const DataContext& context)
    : size_(params.size),
      margin_(params.margin),
      border_(border_named(params.border)),
      fill_(fill_colour(params.fill, context.image.channels)),
      input_(context.image),
      window_(context.window),
      target_scale_(context.target.scale) {
  if (size_.has_value() == margin_.has_value()) {
    fail(ErrorKind::usage, "expected either `size = [height, width]` or `margin`, found {}", size_ ? "both" : "neither");
  }
  if (size_ && std::max(size_->height, size_->width) * target_scale_ > kLargest) {
    fail(ErrorKind::usage, "size: targets would be padded to {} x {}: at most {} x {}", size_->height * target_scale_,
         size_->width * target_scale_, kLargest, kLargest);
  }
  if (!input_.is_static()) return;
  try {
    result(input_);
  } catch (const Error& error) {
    fail(ErrorKind::usage, "{}", error.message());
  }
}

ImageShape Pad::result(const ImageShape& from) const {
  const Size to = size_ ? *size_ : Size{from.height + 2 * margin_->height, from.width + 2 * margin_->width};
  if (to.height < from.height || to.width < from.width) {
    fail(ErrorKind::content, "the image is {} x {}, larger than the {} x {} that it is padded to: resize it first", from.height,
         from.width, to.height, to.width);
  }
  if (to.height > kLargest || to.width > kLargest) {
    fail(ErrorKind::content, "the image would be padded to {} x {}: at most {} x {}", to.height, to.width, kLargest, kLargest);
  }
  if (std::max(to.height, to.width) * target_scale_ > kLargest) {
    fail(ErrorKind::content, "the image would be padded to {} x {} and its target to {} x {}: at most {} x {}", to.height,
         to.width, to.height * target_scale_, to.width * target_scale_, kLargest, kLargest);
  }
  return {static_cast<std::int32_t>(to.height), static_cast<std::int32_t>(to.width), from.channels};
}

ImageShape Pad::image_shape() const {
  if (size_) return {static_cast<std::int32_t>(size_->height), static_cast<std::int32_t>(size_->width), input_.channels};
  return input_.is_static() ? result(input_) : ImageShape{0, 0, input_.channels};
}

void Pad::process(Sample& sample, Draw&) {
  execute_pending(sample, window_);
  const ImageShape from = sample.image().shape, to = result(from);
  if (to == from) return;
  AugmentationRecord& record = sample.record;  // a window that begins before the image; executed here
  record = {};
  record.y = static_cast<std::int16_t>(-((to.height - from.height) / 2));
  record.x = static_cast<std::int16_t>(-((to.width - from.width) / 2));
  record.border = border_;
  std::copy(fill_.begin(), fill_.end(), std::begin(record.fill));
  sample.windowed = true;  // also if the margin is only at the bottom and right
  apply_pending(sample, to);
}

}  // namespace millrace

MILLRACE_PLUGIN("pad", "1.0", "Margins around images.") { registry.add_stage<millrace::Pad>(); }
