#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "excerpt.h"
#include "jpeg_decoder.h"
#include "millrace/util/image_facts.h"
#include "millrace/util/resample.h"
#include "png_decoder.h"

namespace millrace {

// One image, whatever holds it: a JPEG or PNG file, known by its first bytes, or pixels. Used again and again by one thread.
//
//   ImageShape shape = file.open(bytes, 3, limits, true);
//   file.render(rule.excerpt(shape.height, shape.width, draws), ResampleFilter::bilinear, image);
//
// Errors: ErrorKind::content, as the decoders have it; what is neither JPEG nor PNG is named.
class ImageFile {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // Each gives the upright image's shape and allocates no pixels. `bytes` must stay until the image is rendered.
  ImageShape open(Bytes bytes, int channels, const DecodeLimits& limits, bool exif);
  ImageShape open_labels(Bytes bytes, const DecodeLimits& limits, bool exif = true, const LabelColours* colours = nullptr);
  ImageShape open_pixels(Bytes bytes, const ImageShape& shape, int channels);

  int orientation() const { return orientation_; }  // by which the stored image was turned upright; 1: it was not

  bool has_16_bits() const { return format_ == Format::png && png_.depth() == 16; }
  void describe(ImageFacts& facts) const;  // format, channels, bits and orientation. REQUIRES: opened

  // Decodes what the excerpt needs and no more, into `out`. REQUIRES: opened, once for each call; out's height and width are the
  // excerpt's. A JPEG that is shrunk a lot is decoded at a half, a quarter or an eighth of its size, at which no side is smaller
  // than out's.
  void render(const Excerpt& excerpt, ResampleFilter filter, const Image& out);

 private:
  enum class Format { jpeg, png, pixels };

  bool is_whole(const Excerpt& excerpt) const;
  int reduction_for(const Excerpt& excerpt) const;
  // The upright region of the image reduced by `reduction`, and where `box` (of the full image) lies in it.
  PixelRows part(const Region& region, int reduction, Box& box);
  PixelRows stored_part(const Region& region, int reduction);

  Format format_ = Format::pixels;
  ImageShape shape_;  // as stored
  int orientation_ = 1;
  Bytes pixels_;
  int pixel_channels_ = 0;
  std::optional<JpegDecoder> jpeg_;  // made when the first file comes
  PngDecoder png_;
  ByteBuffer stored_, upright_;
  Resampler resampler_;
};

}  // namespace millrace
