// Reads an image's size from the beginning of its file.
#pragma once

#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// The size in the header of a JPEG or PNG file. Zeros for other and broken files. Channels are not read.
ImageShape encoded_size(std::span<const std::uint8_t> bytes);

}  // namespace millrace
