// The filters of a network's first convolution, as small images.
#pragma once

#include <picture.h>

#include <filesystem>
#include <optional>

namespace millrace::pictures {

// From a safetensors file: the first tensor (filters, 1 or 3 channels, height, width) of float32. Empty if there is none or the
// file is invalid.
std::optional<drawing::Picture> first_filters(const std::filesystem::path& weights);

}  // namespace millrace::pictures
