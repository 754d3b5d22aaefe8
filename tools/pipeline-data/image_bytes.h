// Encodes pixels as a JPEG file (<png_file.h> writes PNG files), and detects the type of a file's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

// Writes R, G, B pixels, (height, width, 3), as a JPEG file. Throws ErrorKind::storage.
void write_jpeg(const std::string& path, const std::vector<std::uint8_t>& pixels, int height, int width, int quality);

std::string jpeg_bytes(const ImageView& image, int quality, const std::string& comment = {});  // REQUIRES: 1 or 3 channels

// "jpg" or "png", by the first bytes; empty for anything else.
std::string_view image_extension(const ByteBuffer& bytes);

}  // namespace millrace
