#include "crop.h"

#include <algorithm>

#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/util/centre.h"

namespace millrace {

void Crop::describe(StageDescription<Params>& d) {
  d.name("crop")
      .text("Crops every image to a fixed size.")
      .in_recipes(RecipeRole::preparation, RecipeEffect::cuts)
      .example("size = [6, 5]")
      .example("size = [4, 4]\nposition = 'random'", {10, 12, 3});
  d.params.add("size", &Params::size).required().unit("pixels").text("output size, [height, width]").in_recipes();
  d.params.add("position", &Params::position).choices({"centre", "random"}).text("position of the crop").in_recipes();
}

Crop::Crop(const Params& params, const DataContext& context)
    : piece_{0, 0, context.image.channels}, random_(params.position == "random"), changes_(true), window_(context.window) {
  constexpr std::int64_t kLargest = 65'535;
  const Size& size = params.size;
  if (size.height < 1 || size.width < 1 || size.height > kLargest || size.width > kLargest) {
    fail(ErrorKind::usage, "size: expected [height, width] from 1 to {}, found [{}, {}]", kLargest, size.height, size.width);
  }
  piece_.height = static_cast<std::int32_t>(size.height);
  piece_.width = static_cast<std::int32_t>(size.width);
  const ImageShape& image = context.image;
  changes_ = image.height != piece_.height || image.width != piece_.width;
  if (image.is_static() && (image.height < piece_.height || image.width < piece_.width)) {
    fail(ErrorKind::usage, "size: {} x {} cannot be cropped from images of {} x {}: resize them first", piece_.height,
         piece_.width, image.height, image.width);
  }
}

namespace {

void cut_out(const ImageView& from, int top, int left, const Image& piece) {
  const auto channels = static_cast<std::size_t>(from.shape.channels);
  const std::size_t stride = static_cast<std::size_t>(from.shape.width) * channels;
  const std::size_t bytes = static_cast<std::size_t>(piece.shape.width) * channels;
  const std::uint8_t* source = from.data + static_cast<std::size_t>(top) * stride + static_cast<std::size_t>(left) * channels;
  for (std::size_t row = 0; row < static_cast<std::size_t>(piece.shape.height); ++row) {
    std::copy_n(source + row * stride, bytes, piece.data + row * bytes);
  }
}

}  // namespace

void Crop::process(Sample& sample, Draw& draw) {
  execute_pending(sample, window_);
  const ImageView from = sample.image();
  const int rows = from.shape.height - piece_.height, columns = from.shape.width - piece_.width;
  if (rows < 0 || columns < 0) {
    fail(ErrorKind::content, "the image is {} x {}, too small to crop {} x {}: add a resize stage before", from.shape.height,
         from.shape.width, piece_.height, piece_.width);
  }
  int top = centred(from.shape.height, piece_.height), left = centred(from.shape.width, piece_.width);
  if (random_) {
    top = static_cast<int>(draw.integer(0, rows));
    left = static_cast<int>(draw.integer(0, columns));
  }
  if (rows == 0 && columns == 0) return;
  if (sample.target().data != nullptr) {
    const TargetSpec& spec = sample.target_spec();
    const Image target = sample.new_target(spec.shape({piece_.height, piece_.width, from.shape.channels}));
    cut_out(sample.target(), top * spec.scale, left * spec.scale, target);
    sample.set_target(target);
  }
  const Image piece = sample.new_image({piece_.height, piece_.width, from.shape.channels});
  cut_out(from, top, left, piece);
  sample.set_image(piece, AffineMap::translation(left, top));
}

}  // namespace millrace

MILLRACE_PLUGIN("crop", "1.0", "Pieces of images, from the middle or at random.") { registry.add_stage<millrace::Crop>(); }
