#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decode_limits.h"
#include "excerpt.h"
#include "millrace/sample.h"

namespace millrace {

// One libjpeg decompressor, reusable by one thread. Bit-identical to libjpeg-turbo with its defaults (accurate integer DCT,
// smooth chroma upsampling), for whole images and for parts at full size.
//
//   ImageShape shape = decoder.read_header(bytes, 3, limits);   // the size is known, nothing is allocated
//   decoder.decode(memory_for(shape));                          // or decode_part()
//
// Baseline, extended and progressive; greyscale, YCbCr, RGB, CMYK and YCCK (inverted, as Adobe writes them).
// Errors: ErrorKind::content with libjpeg's reason where pixels are missing or wrong; std::bad_alloc. The decoder stays usable
// after an error. Defects that change no pixel are ignored: an odd scan header, bytes before a marker, a missing end marker.
// Damage after the last row that a part needs is not detected. Larger baseline files use JpegEntropy, with the same results.
// libjpeg reports errors by a call that must not return: a longjmp, only over its frames and ours without destructors.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `channels`: 3 (R, G, B) or 1 (luminance). `bytes` must stay until the pixels are decoded.
  ImageShape read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits);

  int stored_channels() const;  // in the file. REQUIRES: read_header() before

  // REQUIRES: read_header() before each call.
  void decode(std::uint8_t* out);  // (height, width, channels)

  // The region of the image reduced by 1, 2, 4 or 8 (cheaper than decoding at full size); `region` counts reduced pixels; the
  // reduced image has reduced(extent) of them. Decodes only those columns and rows. The result lies in `buffer`.
  PixelRows decode_part(const Region& region, int reduction, ByteBuffer& buffer);
  static int reduced(int extent, int reduction) { return (extent + reduction - 1) / reduction; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
