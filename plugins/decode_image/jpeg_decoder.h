#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "millrace/tensor.h"

namespace millrace {

struct JpegLimits {
  std::int64_t max_pixels = std::int64_t{64} << 20;
  int max_scans = 100;          // of a progressive image: each costs a pass over the whole image
  bool allow_warnings = false;  // decode what there is of a truncated or damaged image
};

// One libjpeg decompressor, to be used again and again by one thread. Bit for bit what libjpeg-turbo gives with its defaults
// (accurate integer DCT, smooth chroma upsampling).
//
//   ImageShape shape = decoder.read_header(bytes, 3, limits);   // then the size is known, and nothing allocated
//   decoder.decode(memory_for(shape));
//
// Baseline, extended and progressive; greyscale, YCbCr, RGB, CMYK and YCCK (also inverted, as Adobe writes them).
// Errors: ErrorKind::content with libjpeg's reason; the decoder can be used again afterwards.
// libjpeg reports errors by a call that must not return: a longjmp, over its own frames and ours without destructors only.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `channels`: 3 (R, G, B) or 1 (luminance). `bytes` must stay until decode() is done.
  ImageShape read_header(std::span<const std::uint8_t> bytes, int channels, const JpegLimits& limits);
  void decode(std::uint8_t* out);  // (height, width, channels). REQUIRES: read_header() before, once for each call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
