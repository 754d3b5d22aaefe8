#include "decode_image.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <thread>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "orientation.h"

namespace millrace {

namespace {

// The target's name in messages.
std::string target_of(const Sample& sample) {
  return sample.target_url.empty() ? "target" : fmt::format("target '{}'", sample.target_url);
}

// Describes a turn by a tag, if the target would have its image's size without it. `scale` as below.
std::string turned(const ImageShape& image, int of_image, const ImageShape& target, int of_target, int scale) {
  const bool would_fit = target.height == image.width * scale && target.width == image.height * scale;
  if (!would_fit || (of_image < 5) == (of_target < 5)) return {};
  const char* const which = of_image < 5 ? "target" : "image";
  return fmt::format(
      "; the {} was turned upright by its EXIF orientation {}, the {} was not: exif = false leaves both as they are", which,
      std::max(of_image, of_target), of_image < 5 ? "image" : "target");
}

// `scale`: the target's size relative to the image. `tags`: text from turned().
void check_size(const Sample& sample, const ImageShape& image, const ImageShape& target, int scale, const std::string& tags) {
  const int height = image.height * scale, width = image.width * scale;
  if (target.height == height && target.width == width) return;
  std::string expected = "they must have the same size";
  if (scale > 1) expected = fmt::format("with target_scale = {} it must be {} x {}", scale, height, width);
  if (target.height == image.height && target.width == image.width)
    expected += "; shrink = \"bicubic\" makes the smaller image of this one";
  expected += tags;
  fail(ErrorKind::content, "the image is {} x {} and its {} {} x {}: {}", image.height, image.width, target_of(sample),
       target.height, target.width, expected);
}

Box whole_of(const ImageShape& shape) { return {0, 0, static_cast<float>(shape.width), static_cast<float>(shape.height)}; }

}  // namespace

void DecodeImage::describe(StageDescription<Params>& d) {
  d.name("decode_image")
      .text("Decodes JPEG and PNG images.")
      .in_recipes(RecipeRole::preparation)
      .example("size = [8, 8]")
      .example("size = [4, 4]\nrandom_resized_crop = { area = [0.5, 1] }", {16, 24, 3});
  d.input(payload::kSampleChunk).output(payload::kImageChunk);
  d.params.add("channels", &Params::channels).range(1, 3).text("3: red, green, blue; 1: luminance").in_recipes();
  d.params.add("size", &Params::size)
      .unit("pixels")
      .text("output size, [height, width]. Alone: required size; other images are bad samples")
      .in_recipes(RecipeEffect::states_size);
  d.params.add("fit", &Params::fit)
      .choices({"as-is", "exact"})
      .text("exact: resize every image to `size`; proportions may change")
      .in_recipes(RecipeEffect::resizes);
  d.params.add("short_side", &Params::short_side)
      .range(1, 65'535)
      .unit("pixels")
      .text("resize the shorter side to this length; keeps proportions")
      .in_recipes(RecipeEffect::resizes);
  d.params.add("crop", &Params::crop)
      .choices({"none", "centre"})
      .text("centre: crop the middle to `size`, after `short_side` if given")
      .in_recipes(RecipeEffect::cuts);
  d.params
      .add_table(
          "random_resized_crop", static_cast<ExcerptParams::RandomPart Params::*>(&Params::random_resized_crop),
          [](ParamSet<ExcerptParams::RandomPart>& set) {
            set.add("area", &ExcerptParams::RandomPart::area).required().text("share of the image's area; 0: no such crop");
            set.add("aspect", &ExcerptParams::RandomPart::aspect).text("width over height; uniform in its logarithm");
          })
      .text("crop a part of random size and position, and resize it to `size`")
      .in_recipes();
  d.params.add("filter", &Params::filter)
      .choices({"bilinear", "bicubic"})
      .text("resizing filter, widened when shrinking; images of classes always use the nearest pixel")
      .in_recipes();
  d.params.add("shrink", &Params::shrink)
      .choices({"none", "bilinear", "bicubic"})
      .text(
          "for targets as large as their images: shrinks the image by the source's target_scale, with this filter; sizes here "
          "refer to the shrunken image")
      .in_recipes(RecipeEffect::spoils);
  d.params.add("exif", &Params::exif).text("rotate photos upright by their EXIF orientation").in_recipes();
  d.params.add("max_pixels", &Params::max_pixels)
      .range(1)
      .text("larger images, including after short_side, are bad samples")
      .in_recipes();
  d.params.add("max_bytes", &Params::max_bytes).range(1).unit("bytes").text("larger files are bad samples").in_recipes();
  d.params.add("max_scans", &Params::max_scans)
      .range(1, 10'000)
      .text("progressive images with more scans are bad samples")
      .in_recipes();
  d.params.add("allow_warnings", &Params::allow_warnings)
      .text(
          "use the readable part of truncated or damaged images: the rest is black in PNG, grey in JPEG. Images of classes must "
          "be whole")
      .in_recipes();
}

DecodeImage::DecodeImage(const Params& params, const DataContext& context)
    : rule_(params),
      filter_(resample_filter(params.filter)),
      channels_(static_cast<int>(params.channels)),
      exif_(params.exif),
      target_scale_(context.target.scale),
      shrinks_(params.shrink != "none"),
      shrink_filter_(resample_filter(shrinks_ ? params.shrink : "nearest")),
      limits_{params.max_pixels, params.max_bytes, static_cast<int>(params.max_scans), params.allow_warnings},
      label_colours_(label_colours(context.colours, context.target)),
      run_(context.run),
      place_(context.place()) {
  if (params.channels == 2) fail(ErrorKind::usage, "channels: expected 1 or 3, found 2");
  if (shrinks_ && target_scale_ == 1) {
    fail(ErrorKind::usage, "shrink: the factor is unknown; set target_scale of the source, which has target images");
  }
  refuse_announced(context.image);
}

// The announced shape may already prove that every image is bad.
void DecodeImage::refuse_announced(const ImageShape& image) const {
  if (image.height == 0 || image.width == 0 || shrinks_ || rule_.is_random()) return;
  try {
    rule_.excerpt(image.height, image.width, {});
  } catch (const Error& error) {
    fail(ErrorKind::usage, "each image would be a bad sample if it is as image_shape() of the source announces: {}",
         error.what());
  }
}

ImageShape DecodeImage::open_image(const Sample& sample, ImageFile& file) const {
  const ImageFile::Bytes bytes{sample.encoded.data(), sample.encoded.size()};
  if (sample.decoded == ImageShape{}) return file.open(bytes, channels_, limits_, exif_);
  return file.open_pixels(bytes, sample.decoded, channels_);
}

void DecodeImage::open_target(Sample& sample, ImageFile& file, const ImageShape& image, int image_orientation) const {
  const ImageFile::Bytes bytes{sample.encoded_target.data(), sample.encoded_target.size()};
  const TargetSpec& spec = sample.target_spec();
  const bool classes = spec.kind == TargetSpec::Kind::classes;
  const int scale = shrinks_ ? 1 : spec.scale;
  ImageShape shape;
  try {
    if (sample.decoded != ImageShape{}) {
      const ImageShape& pixels = sample.decoded;
      const ImageShape stored{pixels.height * scale, pixels.width * scale, spec.channels(pixels.channels)};
      shape = file.open_pixels(bytes, stored, classes ? 1 : channels_);
    } else {
      shape = classes ? file.open_labels(bytes, limits_, exif_, label_colours_ ? &*label_colours_ : nullptr)
                      : file.open(bytes, channels_, limits_, exif_);
    }
  } catch (Error& error) {
    throw error.in(target_of(sample));
  }
  check_size(sample, image, shape, scale, turned(image, image_orientation, shape, file.orientation(), scale));
}

// If an image and its target carry different tags, their sizes show whether both stand upright. Turns that keep the size are
// undetectable: half a turn, a mirror image, a square.
void DecodeImage::name_doubtful_turn(const Sample& sample, const ImageShape& image, int of_image, int of_target) {
  if (of_image == of_target || run_ == nullptr) return;
  const bool sizes_tell = swaps_sides(of_image) != swaps_sides(of_target) && image.height != image.width;
  if (sizes_tell || named_doubtful_turn_.exchange(true)) return;
  run_->warn(fmt::format(
      "{}: sample '{}': the EXIF orientation of the image is {}, that of its {} {}, and their sizes fit either "
      "way: each was turned by its own; if that is wrong, set exif = false. Further pairs of this kind are not reported",
      place_, sample.place(), of_image, target_of(sample), of_target));
}

// Cameras and scanners of 12 bits, and careless conversions, store unscaled values in 16 bits, and tomographs store them around
// 32768. Some correct images are dark or flat too, but not all of the first ones.
void DecodeImage::name_dark_images(const Sample& sample) {
  constexpr int kEnough = 16, kDark = 256 / 8, kFlat = 8;  // images; levels
  if (run_ == nullptr || !judges_depth_) return;
  const ImageView image = sample.image();
  const auto [lowest, highest] = std::minmax_element(image.data, image.data + image.shape.bytes());
  const int least = *lowest, most = *highest;
  const bool is_dark = most < kDark, is_flat = most - least < kFlat;
  if (!is_dark && !is_flat) judges_depth_ = false;
  if (!judges_depth_ || ++dark_images_ < kEnough || !judges_depth_.exchange(false)) return;
  if (!is_dark) {
    return run_->warn(
        fmt::format("{}: the first {} images of 16 bits are nearly uniform grey, since their values are divided by 257: those of "
                    "sample '{}' are between about {} and {}; scale them to 0 ... 65535",
                    place_, kEnough, sample.place(), least * 257, most * 257));
  }
  run_->warn(
      fmt::format("{}: the first {} images of 16 bits are nearly black: none has a value above an eighth of 0 ... 65535, sample "
                  "'{}' none above about {}; if their values have fewer bits, scale them to 16",
                  place_, kEnough, sample.place(), most * 257));
}

// `largest`: the size that the image or its target is resized to, in proportions from the file.
void DecodeImage::check_result(const ImageShape& shape, const Excerpt& largest) const {
  if (largest.width <= limits_.max_pixels / largest.height) return;
  fail(ErrorKind::content, "an image of {} x {} would be resized to {} x {} pixels, more than `max_pixels` ({})", shape.height,
       shape.width, largest.height, largest.width, limits_.max_pixels);
}

// Renders at the target's size, then shrinks with the filter of `shrink`, so that the result does not depend on the reduced sizes
// of JPEG decoding.
void DecodeImage::render_smaller(ImageFile& file, const Excerpt& excerpt, const Image& image) const {
  thread_local ByteBuffer buffer;
  thread_local Resampler resampler;
  const Excerpt large = excerpt.scaled(target_scale_);
  const ImageShape shape{large.height, large.width, channels_};
  const Image between{buffer.resize(shape.bytes()), shape};
  file.render(large, filter_, between);
  resampler.resize(rows_of(between), whole_of(shape), shrink_filter_, image.shape, image.data);
}

void DecodeImage::process(Sample& sample, Draw& draw) {
  thread_local ImageFile image_file, target_file;
  const ExcerptRule::Draws draws = rule_.draw(draw);
  const ImageShape shape = open_image(sample, image_file);
  const TargetSpec& spec = sample.target_spec();
  const bool has_target = spec.kind != TargetSpec::Kind::none;
  if (has_target) {
    open_target(sample, target_file, shape, image_file.orientation());
    name_doubtful_turn(sample, shape, image_file.orientation(), target_file.orientation());
  }
  const int times = shrinks_ ? target_scale_ : 1;
  if (std::min(shape.height, shape.width) < times) {
    fail(ErrorKind::content, "the image is {} x {}: too small to be shrunk {} times", shape.height, shape.width, times);
  }
  const Excerpt excerpt = rule_.excerpt(shape.height / times, shape.width / times, draws);
  if (excerpt.resampled && rule_.height() == 0) check_result(shape, excerpt.scaled(spec.scale));
  if (has_target) {
    const bool classes = spec.kind == TargetSpec::Kind::classes;
    const Image target = sample.new_target(spec.shape({excerpt.height, excerpt.width, channels_}));
    try {
      target_file.render(excerpt.scaled(spec.scale), classes ? ResampleFilter::nearest : filter_, target);
    } catch (Error& error) {
      throw error.in(target_of(sample));
    }
    if (classes)
      std::transform(target.data, target.data + target.shape.bytes(), target.data,
                     [&](std::uint8_t v) { return spec.classes[v]; });
    sample.set_target(target);
  }
  const Image image = sample.new_image({excerpt.height, excerpt.width, channels_});
  if (shrinks_)
    render_smaller(image_file, excerpt, image);
  else
    image_file.render(excerpt, filter_, image);
  sample.set_image(image, SourceMap{shape.height, shape.width, resample_map(excerpt.scaled(times).box, image.shape)});
  if (image_file.has_16_bits()) name_dark_images(sample);
}

ImageFacts DecodeImage::facts(const Sample& sample) const {
  constexpr int kSide = 32;  // side of the small version, whose pixels are means
  thread_local ImageFile file;
  thread_local ByteBuffer buffer;
  const ImageShape shape = open_image(sample, file);
  ImageFacts facts{.height = shape.height, .width = shape.width};
  file.describe(facts);
  facts.origin = origin_in({sample.encoded.data(), sample.encoded.size()});
  const ImageShape small{std::min(shape.height, kSide), std::min(shape.width, kSide), channels_};
  const Image image{buffer.resize(small.bytes()), small};
  file.render({{0, 0, shape.height, shape.width}, whole_of(shape), small.height, small.width, small != shape},
              ResampleFilter::bilinear, image);
  const auto count = static_cast<double>(small.bytes());
  double sum = 0, squares = 0;
  for (const double value : std::span(image.data, small.bytes())) {
    sum += value / 255;
    squares += value / 255 * value / 255;
  }
  const auto [least, most] = std::minmax_element(image.data, image.data + small.bytes());
  facts.mean = sum / count;
  facts.deviation = std::sqrt(std::max(0.0, squares / count - facts.mean * facts.mean));
  facts.least = *least / 255.0;
  facts.most = *most / 255.0;
  return facts;
}

// libjpeg's buffers for a progressive image: 16-bit coefficients, per thread. Unknown in advance if sizes vary.
std::size_t DecodeImage::memory_bound() const {
  constexpr std::size_t kTables = 1'000'000;  // tables of both libraries and of resampling, and a few rows
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t larger = static_cast<std::size_t>(target_scale_) * static_cast<std::size_t>(target_scale_);
  const std::size_t images = 1 + larger + (shrinks_ ? larger : 0);
  return threads * (kTables + images * image_shape().bytes());
}

}  // namespace millrace

MILLRACE_PLUGIN("decode_image", "1.1", "JPEG and PNG images, through libjpeg-turbo and libpng.") {
  registry.add_stage<millrace::DecodeImage>();
}
