#pragma once

#include <cstdint>

namespace millrace {

// Checked from headers, before anything is allocated.
struct DecodeLimits {
  std::int64_t max_pixels = std::int64_t{64} << 20;
  std::int64_t max_bytes = std::int64_t{256} << 20;  // size of the file
  int max_scans = 100;                               // in a progressive JPEG: each costs a pass over the whole image
  bool allow_warnings = false;                       // decode the readable part of a truncated or damaged image
};

// Throws ErrorKind::content.
void check_pixels(std::int64_t height, std::int64_t width, const DecodeLimits& limits);

}  // namespace millrace
