#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// Writes R, G, B pixels, (height, width, 3), as a JPEG file. Throws ErrorKind::storage.
void write_jpeg(const std::string& path, const std::vector<std::uint8_t>& pixels, int height, int width, int quality);

}  // namespace millrace
