// Pixels as the bytes of an image file.
#pragma once

#include <string>

#include "millrace/sample.h"

namespace millrace {

std::string png_bytes(const ImageView& image);                // REQUIRES: 1 to 4 channels. Throws ErrorKind::run.
std::string jpeg_bytes(const ImageView& image, int quality);  // REQUIRES: 1 or 3 channels

// "jpg" or "png", by the first bytes; empty for anything else.
std::string_view image_extension(const ByteBuffer& bytes);

}  // namespace millrace
