#include "blend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/centre.h"

namespace millrace {

void execute_records(Batch& batch) {
  thread_local std::vector<std::uint8_t> moved;
  const std::size_t bytes = batch.image.bytes();
  moved.resize(bytes);
  const int right = centred(batch.image.width, batch.window.width), down = centred(batch.image.height, batch.window.height);
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    AugmentationRecord record = batch.records[slot];
    // From the window's first pixel to the image's.
    record.x = static_cast<std::int16_t>(record.x - record.step_x * right);
    record.y = static_cast<std::int16_t>(record.y - record.step_y * down);
    std::uint8_t* const pixels = batch.change_pixels() + slot * bytes;
    if (!record.is_identity()) {
      apply_record(record, {pixels, batch.image}, batch.image, moved.data());
      std::memcpy(pixels, moved.data(), bytes);
    }
    AugmentationRecord rest;
    rest.x = static_cast<std::int16_t>(right);
    rest.y = static_cast<std::int16_t>(down);
    rest.noise = record.noise;
    rest.noise_seed = record.noise_seed;
    batch.records[slot] = rest;
  }
}

void blend(std::uint8_t* image, const std::uint8_t* other, std::size_t bytes, int own) {
  const auto mine = static_cast<std::uint16_t>(own), theirs = static_cast<std::uint16_t>(256 - own);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto sum = static_cast<std::uint16_t>(image[i] * mine + other[i] * theirs + 128);
    image[i] = static_cast<std::uint8_t>(sum >> 8);
  }
}

void paste(std::uint8_t* image, const std::uint8_t* other, ImageShape shape, const Box& box) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t stride = static_cast<std::size_t>(shape.width) * channels;
  std::size_t at = static_cast<std::size_t>(box.top) * stride + static_cast<std::size_t>(box.left) * channels;
  for (int row = 0; row < box.height; ++row, at += stride) {
    std::memcpy(image + at, other + at, static_cast<std::size_t>(box.width) * channels);
  }
}

}  // namespace millrace
