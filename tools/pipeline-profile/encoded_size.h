// The size of an image by the first bytes of its file.
#pragma once

#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// Of JPEG and PNG. Zeros for anything else, and where the file is broken. Channels are not looked at.
ImageShape encoded_size(std::span<const std::uint8_t> bytes);

}  // namespace millrace
