// Pixels as the bytes of a JPEG file (<png_file.h> makes PNG files), and what the bytes of a file are.
#pragma once

#include <string>

#include "millrace/sample.h"

namespace millrace {

std::string jpeg_bytes(const ImageView& image, int quality, const std::string& comment = {});  // REQUIRES: 1 or 3 channels

// "jpg" or "png", by the first bytes; empty for anything else.
std::string_view image_extension(const ByteBuffer& bytes);

}  // namespace millrace
