#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "excerpt.h"
#include "jpeg_decoder.h"
#include "millrace/util/image_facts.h"
#include "millrace/util/resample.h"
#include "png_decoder.h"

namespace millrace {

// "a GIF image", "a web page", ...; empty if not recognised.
std::string_view recognise_format(std::span<const std::uint8_t> bytes);

// One image: a JPEG or PNG file, recognised by its first bytes, or pixels. Reusable by one thread.
//
//   ImageShape shape = file.open(bytes, 3, limits, true);
//   file.render(rule.excerpt(shape.height, shape.width, draws), ResampleFilter::bilinear, image);
//
// Errors: ErrorKind::content, from the decoders; for other formats the message names the format.
class ImageFile {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // Each returns the upright image's shape without allocating pixels. `bytes` must stay until the image is rendered.
  ImageShape open(Bytes bytes, int channels, const DecodeLimits& limits, bool exif);
  ImageShape open_labels(Bytes bytes, const DecodeLimits& limits, bool exif = true, const LabelColours* colours = nullptr);
  ImageShape open_pixels(Bytes bytes, const ImageShape& shape, int channels);

  int orientation() const { return orientation_; }  // EXIF orientation that was undone; 1 if none

  bool has_16_bits() const { return format_ == Format::png && png_.depth() == 16; }
  void describe(ImageFacts& facts) const;  // format, channels, bits and orientation. REQUIRES: opened

  // Decodes only the pixels that the excerpt needs, into `out`. REQUIRES: opened, once for each call; out has the excerpt's
  // height and width. A JPEG that is shrunk a lot is decoded at a half, a quarter or an eighth of its size, with no side smaller
  // than out's.
  void render(const Excerpt& excerpt, ResampleFilter filter, const Image& out);

 private:
  enum class Format { jpeg, png, pixels };

  bool is_whole(const Excerpt& excerpt) const;
  int reduction_for(const Excerpt& excerpt) const;
  // Decodes the upright region of the image reduced by `reduction`; sets `box` (of the full image) to its place in it.
  PixelRows part(const Region& region, int reduction, Box& box);
  PixelRows stored_part(const Region& region, int reduction);

  Format format_ = Format::pixels;
  ImageShape shape_;  // as stored
  int orientation_ = 1;
  Bytes pixels_;
  int pixel_channels_ = 0;
  std::optional<JpegDecoder> jpeg_;  // created with the first file
  PngDecoder png_;
  ByteBuffer stored_, upright_;
  Resampler resampler_;
};

}  // namespace millrace
