#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode_limits.h"
#include "excerpt.h"
#include "millrace/sample.h"

namespace millrace {

// Memory for libpng, which asks for some with every image: kept from image to image, given back all at once.
class PngMemory {
 public:
  void* take(std::size_t bytes);  // null beyond kMost
  void reset();

 private:
  static constexpr std::size_t kPiece = 512 << 10, kMost = 64 << 20;
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  // of the last piece
};

// PNG images through libpng, again and again by one thread.
//
//   ImageShape shape = decoder.read_header(bytes, 3, limits);
//   PixelRows pixels = decoder.decode_part({0, 0, shape.height, shape.width}, buffer);
//
// Any depth and colour. 16 bits are rounded to 8; alpha is dropped, as Pillow's convert("RGB") does; gamma and profiles are not
// applied. Grey becomes three equal channels, colour becomes luminance by libjpeg's formula.
// read_label_header(): the pixels are class values, exactly as they are stored (grey of up to 8 bits, or palette indices).
// Errors: ErrorKind::content for whatever is wrong with the file: a checksum, its end, a limit. Damage behind the last row that a
// part needs is not seen. The same longjmp discipline as JpegDecoder's.
class PngDecoder {
 public:
  ImageShape read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits);
  ImageShape read_label_header(std::span<const std::uint8_t> bytes, const DecodeLimits& limits);

  // REQUIRES: one of the above before. The result lies in `buffer`.
  PixelRows decode_part(const Region& region, ByteBuffer& buffer);

 private:
  struct Reading;

  std::span<const std::uint8_t> bytes_;
  DecodeLimits limits_;
  ImageShape shape_;               // as given back
  std::size_t file_channels_ = 0;  // of the rows that libpng gives
  unsigned depth_ = 0, colour_ = 0;
  bool interlaced_ = false, labels_ = false;
  PngMemory memory_;
  std::vector<std::uint8_t> skipped_;  // a row that nobody needs
};

// Three channels to one, in place allowed: luminance of ITU-R BT.601, as libjpeg has it.
void to_luminance(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* grey);

}  // namespace millrace
