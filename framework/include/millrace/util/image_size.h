// The size of an image as displayed, from the beginning of its file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace millrace {

struct ImageSize {
  int width = 0, height = 0;  // turned upright by a JPEG's EXIF orientation
};

// JPEG and PNG. Empty if `begin` is neither, or ends before the size.
std::optional<ImageSize> image_size(std::span<const std::uint8_t> begin);

}  // namespace millrace
