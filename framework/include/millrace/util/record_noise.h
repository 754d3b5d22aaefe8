// The noise that devices add to images, for stages that show the network's input.
#pragma once

#include <cstdint>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// Adds AugmentationRecord::noise to the pixels of the window, rounded and clamped to [0, 255]; the device does neither.
void add_noise(const AugmentationRecord& record, std::span<std::uint8_t> pixels);

}  // namespace millrace
