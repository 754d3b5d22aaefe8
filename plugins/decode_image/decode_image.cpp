#include "decode_image.h"

#include <thread>

#include "millrace/plugin.h"

namespace millrace {

void DecodeImage::describe(StageDescription<Params>& d) {
  d.name("decode_image").text("Decodes JPEG images.");
  d.input(payload::kSampleChunk).output(payload::kImageChunk);
  d.params.add("channels", &Params::channels).range(1, 3).text("3: red, green, blue; 1: luminance");
  d.params.add("size", &Params::size)
      .unit("pixels")
      .text("the size that every image has; one of another size is a bad sample. Makes a resize or crop stage unnecessary");
  d.params.add("max_pixels", &Params::max_pixels).range(1).text("larger images are bad samples");
  d.params.add("max_scans", &Params::max_scans).range(1, 10'000).text("progressive images with more scans are bad samples");
  d.params.add("allow_warnings", &Params::allow_warnings).text("use what there is of truncated or damaged images");
}

DecodeImage::DecodeImage(const Params& params, const StageContext&)
    : limits_{params.max_pixels, static_cast<int>(params.max_scans), params.allow_warnings} {
  if (params.channels == 2) fail(ErrorKind::usage, "channels: expected 1 or 3, found 2");
  shape_.channels = static_cast<std::int32_t>(params.channels);
  if (!params.size) return;
  constexpr std::int64_t kLargest = 65'535;  // that JPEG can express
  if (params.size->height < 1 || params.size->width < 1 || params.size->height > kLargest || params.size->width > kLargest) {
    fail(ErrorKind::usage, "size: expected [height, width] from 1 to {}, found [{}, {}]", kLargest, params.size->height,
         params.size->width);
  }
  shape_.height = static_cast<std::int32_t>(params.size->height);
  shape_.width = static_cast<std::int32_t>(params.size->width);
}

void DecodeImage::process(Sample& sample, Draw&) {
  thread_local JpegDecoder decoder;
  const ImageShape shape = decoder.read_header({sample.encoded.data(), sample.encoded.size()}, shape_.channels, limits_);
  if (shape_.is_static() && shape != shape_) {
    fail(ErrorKind::content,
         "the image is {} x {}, but `size` says that all are {} x {}: leave `size` out and add a resize or crop stage",
         shape.height, shape.width, shape_.height, shape_.width);
  }
  const Image image = sample.new_image(shape);
  decoder.decode(image.data);
  sample.set_image(image);
}

// What libjpeg holds of a progressive image while it collects the scans: 16-bit coefficients, on each thread. Where sizes vary
// nothing is known before the images are read.
std::size_t DecodeImage::memory_bound() const {
  constexpr std::size_t kTables = 200'000;  // decoding tables and a few rows
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  return threads * (kTables + 2 * shape_.bytes());
}

}  // namespace millrace

MILLRACE_PLUGIN("decode_image", "1.0", "JPEG images, through libjpeg-turbo.") { registry.add_stage<millrace::DecodeImage>(); }
