#include "millrace/util/record_noise.h"

#include <algorithm>
#include <cmath>

#include "millrace/kernels/noise.h"

namespace millrace {

void add_noise(const AugmentationRecord& record, std::span<std::uint8_t> pixels) {
  for (std::size_t place = 0; record.noise > 0 && place < pixels.size(); ++place) {
    const float noise = record.noise * normal_deviate(record.noise_seed, static_cast<std::uint32_t>(place));
    pixels[place] = static_cast<std::uint8_t>(std::clamp(std::lround(static_cast<float>(pixels[place]) + noise), 0L, 255L));
  }
}

}  // namespace millrace
