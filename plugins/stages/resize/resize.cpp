#include "resize.h"

#include "millrace/plugin.h"

namespace millrace {

void Resize::describe(StageDescription<Params>& d) {
  d.name("resize")
      .text("Resamples images to a size.")
      .in_recipes(RecipeRole::preparation, RecipeEffect::resizes)
      .example("size = [5, 12]")
      .example("short_side = 4\nfilter = 'bicubic'", {8, 12, 3});
  d.params.add("size", &Params::size).unit("pixels").text("exact size, [height, width]; proportions may change").in_recipes();
  d.params.add("short_side", &Params::short_side)
      .range(1, static_cast<double>(kLargest))
      .unit("pixels")
      .text("length of the shorter side; keeps proportions")
      .in_recipes();
  d.params.add("filter", &Params::filter)
      .choices({"bilinear", "bicubic", "nearest"})
      .text("interpolation; the first two are widened when shrinking. Images of classes always use the nearest pixel")
      .in_recipes();
}

Resize::Resize(const Params& params, const DataContext& context)
    : params_(params), filter_(resample_filter(params.filter)), input_(context.image), window_(context.window) {
  if (params.size.has_value() == params.short_side.has_value()) {
    fail(ErrorKind::usage, "expected either `size = [height, width]` or `short_side`, found {}",
         params.size ? "both" : "neither");
  }
  if (!params.size) return;
  if (params.size->height < 1 || params.size->width < 1 || params.size->height > kLargest || params.size->width > kLargest) {
    fail(ErrorKind::usage, "size: expected [height, width] from 1 to {}, found [{}, {}]", kLargest, params.size->height,
         params.size->width);
  }
}

ImageShape Resize::result(const ImageShape& from) const {
  if (params_.size) {
    return {static_cast<std::int32_t>(params_.size->height), static_cast<std::int32_t>(params_.size->width), from.channels};
  }
  const std::int64_t side = *params_.short_side;
  const bool upright = from.height >= from.width;
  const std::int64_t shorter = upright ? from.width : from.height;
  const std::int64_t longer = side * (upright ? from.height : from.width) / shorter;
  if (longer > kLargest) {
    fail(ErrorKind::content, "an image of {} x {} would get a side of {} pixels: at most {}", from.height, from.width, longer,
         kLargest);
  }
  if (!input_.is_static() && longer > kMaxPixels / side) {
    fail(ErrorKind::content, "an image of {} x {} would be resized to {} x {} pixels: at most {} million", from.height,
         from.width, upright ? longer : side, upright ? side : longer, kMaxPixels >> 20);
  }
  const auto small = static_cast<std::int32_t>(side), large = static_cast<std::int32_t>(longer);
  return upright ? ImageShape{large, small, from.channels} : ImageShape{small, large, from.channels};
}

ImageShape Resize::image_shape() const {
  return params_.size || input_.is_static() ? result(input_) : ImageShape{0, 0, input_.channels};
}

void Resize::process(Sample& sample, Draw&) {
  thread_local Resampler resampler;
  execute_pending(sample, window_);
  const ImageView from = sample.image();
  const ImageShape to = result(from.shape);
  if (to == from.shape) return;
  const auto whole = [](const ImageShape& shape) {
    return Box{0, 0, static_cast<float>(shape.width), static_cast<float>(shape.height)};
  };
  const auto resample = [&](const ImageView& in, ResampleFilter filter, const Image& out) {
    resampler.resize(rows_of(in), whole(in.shape), filter, out.shape, out.data);
  };
  if (sample.target().data != nullptr) {
    const bool classes = sample.target_spec().kind == TargetSpec::Kind::classes;
    const Image target = sample.new_target(sample.target_spec().shape(to));
    resample(sample.target(), classes ? ResampleFilter::nearest : filter_, target);
    sample.set_target(target);
  }
  const Image image = sample.new_image(to);
  resample(from, filter_, image);
  sample.set_image(image, resample_map(whole(from.shape), to));
}

}  // namespace millrace

MILLRACE_PLUGIN("resize", "1.0", "Images resampled to a size.") { registry.add_stage<millrace::Resize>(); }
