// The size of an image by the first bytes of its file.
#pragma once

#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// The extents that the header of a JPEG or PNG file says. Zeros for other and for broken files. Channels are not read.
ImageShape encoded_size(std::span<const std::uint8_t> bytes);

}  // namespace millrace
