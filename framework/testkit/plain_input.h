// Input and results of the plain backend's networks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::testkit {

// Slots [begin, begin + count) of a batch, seen through a view, as normalised (count, C, H, W) floats.
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

// total += view.weight * result; a mirrored view's maps are mirrored back.
inline void add_view(const Network& network, const std::vector<float>& result, const View& view, std::vector<float>& total) {
  const std::size_t width = network.output().rank() == 3 ? static_cast<std::size_t>(network.output()[2]) : 1;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const std::size_t x = i % width, from = view.flip_x ? i - x + (width - 1 - x) : i;
    total[i] += static_cast<float>(view.weight) * result[from];
  }
}

// The gradient of each sample's score by the network's result.
inline std::vector<float> score_gradient(const Network& network, const ScoreGradient& score, const std::vector<float>& result,
                                         std::span<const std::int32_t> labels) {
  std::vector<float> gradient(result.size(), 0.0F);
  const auto numbers = scored_numbers(score, result, labels);
  const auto width = static_cast<std::size_t>(network.output().elements());
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] >= 0) gradient[n * width + static_cast<std::size_t>(numbers[n])] = 1;
  }
  return gradient;
}

}  // namespace millrace::testkit
