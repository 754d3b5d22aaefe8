// Good images, and images broken in every way that data sets are found to be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

using Bytes = std::vector<std::uint8_t>;

enum class Breakage {
  truncated_jpeg,
  truncated_png,
  flipped_jpeg,  // some bits; may go unnoticed, or be refused
  flipped_png,   // one bit of the pixels: a checksum finds it
  empty,
  zeros,         // as a disk that was full leaves them
  zero_tail,     // the second half is zeros
  other_format,  // GIF, WebP, PDF, a web page, ...
  text,          // a Git LFS pointer
  bomb,          // 118 bytes that claim 65500 x 65500 pixels, which takes some decoders minutes
  modest_bomb,   // a few bytes that claim 1000 x 1000 pixels
  png_bomb,      // a PNG header that claims 60000 x 60000
  twelve_bit,
  lossless,
  endless_scans,  // a progressive JPEG whose last scan comes 400 times
  many_scans,     // 190 scans, and nothing wrong with any
  cmyk,           // in order, but rare
  no_image,       // headers and no scan
  garbage,        // random bytes after a JPEG's first two
  kCount,
};

const char* to_string(Breakage kind);
bool may_be_used(Breakage kind);  // such an image may be decoded without a complaint

Bytes make_good(std::uint64_t seed);  // JPEG or PNG, of many sizes and kinds
Bytes make_broken(Breakage kind, std::uint64_t seed);

}  // namespace millrace::test
