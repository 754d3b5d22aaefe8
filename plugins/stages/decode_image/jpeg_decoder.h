#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decode_limits.h"
#include "excerpt.h"
#include "millrace/sample.h"

namespace millrace {

// One libjpeg decompressor, to be used again and again by one thread. Bit for bit what libjpeg-turbo gives with its defaults
// (accurate integer DCT, smooth chroma upsampling), for whole images as for parts of them at full size.
//
//   ImageShape shape = decoder.read_header(bytes, 3, limits);   // then the size is known, and nothing allocated
//   decoder.decode(memory_for(shape));                          // or decode_part()
//
// Baseline, extended and progressive; greyscale, YCbCr, RGB, CMYK and YCCK (inverted, as Adobe writes them).
// Errors: ErrorKind::content with libjpeg's reason where pixels are missing or wrong; std::bad_alloc. The decoder can be used
// again afterwards. A fault that changes no pixel does not matter: an odd scan header, bytes before a marker, no end marker.
// Damage after the last row that a part needs is not seen.
// Larger files of the plain kind go through JpegEntropy, with the same results.
// libjpeg reports errors by a call that must not return: a longjmp, over its own frames and ours without destructors only.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `channels`: 3 (R, G, B) or 1 (luminance). `bytes` must stay until the pixels are decoded.
  ImageShape read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits);

  int stored_channels() const;  // of the file. REQUIRES: read_header() before

  // REQUIRES: read_header() before, once for each call.
  void decode(std::uint8_t* out);  // (height, width, channels)

  // The region of the image reduced by 1, 2, 4 or 8 (which costs less than decoding it at full size); `region` counts reduced
  // pixels, of which there are reduced(extent). Decodes no columns and rows but those. The result lies in `buffer`.
  PixelRows decode_part(const Region& region, int reduction, ByteBuffer& buffer);
  static int reduced(int extent, int reduction) { return (extent + reduction - 1) / reduction; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
