#include "random_crop.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "geometry.h"
#include "millrace/error.h"

namespace millrace {

RandomCrop::RandomCrop(const CropParams& params, ImageShape input, int target_scale)
    : params_(params), filter_(resample_filter(params.filter)) {
  const Size& size = params.size;
  const int largest = Geometry::kLargest / target_scale;
  if (size.height < 1 || size.width < 1 || size.height > largest || size.width > largest) {
    fail(ErrorKind::usage, "random_resized_crop.size: expected [height, width] from 1 to {}, found [{}, {}]", largest,
         size.height, size.width);
  }
  output_ = {static_cast<std::int32_t>(size.height), static_cast<std::int32_t>(size.width), input.channels};
}

RandomCrop::Part RandomCrop::draw_part(Draw& draw, ImageShape shape) const {
  constexpr std::size_t kAttempts = 10;
  std::array<double, kAttempts> areas, aspects;
  for (std::size_t i = 0; i < kAttempts; ++i) {
    areas[i] = draw.uniform(params_.area.low, params_.area.high);
    aspects[i] = std::exp(draw.uniform(std::log(params_.aspect.low), std::log(params_.aspect.high)));
  }
  const double row = draw.uniform(), column = draw.uniform();
  const double area = static_cast<double>(shape.height) * shape.width;
  const auto round = [](double value) { return static_cast<int>(std::min(std::nearbyint(value), 1e6)); };
  for (std::size_t i = 0; i < kAttempts; ++i) {
    const int width = round(std::sqrt(area * areas[i] * aspects[i])), height = round(std::sqrt(area * areas[i] / aspects[i]));
    if (width < 1 || width > shape.width || height < 1 || height > shape.height) continue;
    return {static_cast<int>(row * (shape.height - height + 1)), static_cast<int>(column * (shape.width - width + 1)), height,
            width};
  }
  const double aspect = static_cast<double>(shape.width) / shape.height;
  int width = shape.width, height = shape.height;
  if (aspect < params_.aspect.low) height = std::clamp(round(width / params_.aspect.low), 1, height);
  if (aspect > params_.aspect.high) width = std::clamp(round(height * params_.aspect.high), 1, width);
  return {(shape.height - height) / 2, (shape.width - width) / 2, height, width};
}

void RandomCrop::apply(Sample& sample, Draw& draw) const {
  const Part part = draw_part(draw, sample.image().shape);
  if (sample.target().data != nullptr) {
    const TargetSpec& spec = sample.target_spec();
    const bool classes = spec.kind == TargetSpec::Kind::classes;
    const Image from = sample.target(),
                to = sample.new_target(spec.shape({output_.height, output_.width, sample.image().shape.channels}));
    resample(from, part.scaled(spec.scale), classes ? ResampleFilter::nearest : filter_, to);
    sample.set_target(to);
  }
  const ImageView from = sample.image();
  const Image to = sample.new_image({output_.height, output_.width, from.shape.channels});
  resample(from, part, filter_, to);
  const Box box{static_cast<float>(part.left), static_cast<float>(part.top), static_cast<float>(part.left + part.width),
                static_cast<float>(part.top + part.height)};
  sample.set_image(to, resample_map(box, to.shape));
}

void RandomCrop::resample(const ImageView& image, const Part& part, ResampleFilter filter, const Image& out) const {
  thread_local Resampler resampler;
  PixelRows rows = rows_of(image);
  // Crops first, like torchvision: pixels outside the part have no influence.
  const auto row = static_cast<std::size_t>(part.top), column = static_cast<std::size_t>(part.left);
  rows.data += row * rows.stride + column * static_cast<std::size_t>(rows.shape.channels);
  rows.shape.height = part.height;
  rows.shape.width = part.width;
  const Box whole{0, 0, static_cast<float>(part.width), static_cast<float>(part.height)};
  resampler.resize(rows, whole, filter, out.shape, out.data);
}

}  // namespace millrace
