#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode_limits.h"
#include "excerpt.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

struct LabelColours {
  std::vector<std::pair<std::uint32_t, std::uint8_t>> values;  // sorted by colour, 0xrrggbb: the value of its class
  std::uint8_t other = 255;                                    // an ignored value, for all other colours
  bool of_palettes = false;                                    // see reads_palettes_by_colour()

  std::uint8_t value_of(std::uint32_t colour) const;
};

// From the classes' colours, "#rrggbb" by class. Empty if they have none, or if every value is a class.
std::optional<LabelColours> label_colours(const std::vector<std::string>& colours, const TargetSpec& spec);

// Memory for libpng, which allocates for every image: reused from image to image and freed all at once.
class PngMemory {
 public:
  void* take(std::size_t bytes) noexcept;  // null beyond kMax, or if the system has no more
  void reset();
  bool is_exhausted() const { return is_exhausted_; }  // an allocation failed since reset()

 private:
  static constexpr std::size_t kPiece = 512 << 10, kMax = 64 << 20;
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  // in the last piece
  bool is_exhausted_ = false;
};

// Decodes PNG images with libpng; reusable by one thread.
//
//   ImageShape shape = decoder.read_header(bytes, 3, limits);
//   PixelRows pixels = decoder.decode_part({0, 0, shape.height, shape.width}, buffer);
//
// Any depth and colour. 16 bits are rounded to 8; alpha is dropped, as in Pillow's convert("RGB"); gamma and profiles are not
// applied. Grey becomes three equal channels, colour becomes luminance by libjpeg's formula. read_label_header(): the pixels are
// class values: stored palette indices, or grey: fewer than 8 bits are scaled to 0 ... 255 as in the format, Pillow, OpenCV and
// torchvision (optimisers store 0 and 255 in one bit), and 16 bits stay as stored. RGB is mapped to the values of `colours`, and
// so is a palette with LabelColours::of_palettes; without them the three channels of RGB must be equal, and are the value. Labels
// must be complete, whatever the limits allow: missing pixels have no class. Errors: ErrorKind::content for missing or wrong
// pixels and for limits; with DecodeLimits::allow_warnings missing pixels are black. Defects elsewhere are ignored: in a chunk
// that no pixel depends on, after the last row, or a zlib window that is too small. Pixels are valid if one of their two
// checksums is right, the chunks' or zlib's. Damage after the last row that a part needs is not detected. std::bad_alloc. The
// same longjmp discipline as JpegDecoder.
class PngDecoder {
 public:
  ImageShape read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits);
  // `colours` must stay until the image is decoded.
  ImageShape read_label_header(std::span<const std::uint8_t> bytes, const DecodeLimits& limits,
                               const LabelColours* colours = nullptr);

  unsigned depth() const { return depth_; }  // bits per value in the file
  int stored_channels() const;               // channels in the file, or in its palette

  // REQUIRES: a header was read. The result lies in `buffer`.
  PixelRows decode_part(const Region& region, ByteBuffer& buffer);

 private:
  struct Reading;

  void read(const Region& region, std::uint8_t* out, std::size_t row_bytes);
  void to_label_values(std::uint8_t* pixels, std::size_t count) const;  // in place

  std::span<const std::uint8_t> bytes_;
  DecodeLimits limits_;
  ImageShape shape_;               // shape of the result
  std::size_t file_channels_ = 0;  // channels of libpng's rows
  unsigned depth_ = 0, colour_ = 0;
  bool interlaced_ = false, labels_ = false;
  const LabelColours* label_colours_ = nullptr;     // null if none
  std::array<std::uint8_t, 256> palette_values_{};  // for label images with a palette: the value of each index
  PngMemory memory_;
  std::vector<std::uint8_t> skipped_;  // a row that is not needed
};

// Three channels to one, in place allowed: luminance of ITU-R BT.601, as in libjpeg.
void to_luminance(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* grey);

}  // namespace millrace
