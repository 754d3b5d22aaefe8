// Encodes pixels as a JPEG file (<png_file.h> writes PNG files), and detects the type of a file's bytes.
#pragma once

#include <string>

#include "millrace/sample.h"

namespace millrace {

std::string jpeg_bytes(const ImageView& image, int quality, const std::string& comment = {});  // REQUIRES: 1 or 3 channels

// "jpg" or "png", by the first bytes; empty for anything else.
std::string_view image_extension(const ByteBuffer& bytes);

}  // namespace millrace
