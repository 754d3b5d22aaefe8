// What the plain backend's networks read.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/backend.h"

namespace millrace::testkit {

// Slots [begin, begin + count) of a batch, through a view, as normalised (count, C, H, W) floats.
inline std::vector<float> normalised_images(const Network& network, const Batch& batch, std::uint32_t begin, std::uint32_t count,
                                            const View& view) {
  const ImageShape window = batch.window;
  std::vector<float> values;
  std::vector<std::uint8_t> seen(window.bytes());
  for (std::uint32_t n = begin; n < begin + count; ++n) {
    AugmentationRecord record = batch.records[n];
    if (view.dx != 0 || view.dy != 0) {
      record.translate(view.dx, view.dy);
      record.border = view.border;
    }
    if (view.flip_x) record.flip_x(window.width);
    apply_record(record, {const_cast<std::uint8_t*>(batch.pixels) + n * batch.image.bytes(), batch.image}, window, seen.data());
    const auto channels = static_cast<std::size_t>(window.channels);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = c; i < seen.size(); i += channels) {
        values.push_back(static_cast<float>((seen[i] / 255.0 - network.mean[c]) / network.deviation[c]));
      }
    }
  }
  return values;
}

}  // namespace millrace::testkit
