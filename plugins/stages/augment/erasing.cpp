#include "erasing.h"

#include <algorithm>
#include <cmath>

#include "millrace/util/centre.h"

namespace millrace {

namespace {

void mean_colour(const Image& image, std::uint8_t colour[4]) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  std::uint64_t sums[4] = {};
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; i += channels) {
    for (std::size_t c = 0; c < channels; ++c) sums[c] += image.data[i + c];
  }
  const std::uint64_t pixels = size / channels;
  for (std::size_t c = 0; c < channels; ++c) colour[c] = static_cast<std::uint8_t>((sums[c] + pixels / 2) / pixels);
}

// Paints a rectangle row by row, as bytes.
template <class Paint>
void for_rows(const Image& image, const Erasing::Box& box, Paint paint) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  const std::size_t bytes = static_cast<std::size_t>(box.width) * channels;
  std::uint8_t* row = image.data + static_cast<std::size_t>(box.top) * stride + static_cast<std::size_t>(box.left) * channels;
  for (int y = 0; y < box.height; ++y, row += stride) paint(row, bytes);
}

}  // namespace

Erasing::Erasing(const EraseParams& params, const Outside& outside) : params_(params), outside_(outside) {}

const Erasing::Boxes& Erasing::draw(Draw& draw, ImageShape window) const {
  thread_local Boxes result;
  result.happens = draw.chance(params_.chance);
  result.boxes.clear();
  const double seen = static_cast<double>(window.height) * window.width;
  const auto side = [](double length, int most) { return std::clamp(static_cast<int>(std::lround(length)), 0, most); };
  for (std::int64_t i = 0; i < params_.count; ++i) {
    Box box;
    const double area = seen * draw.uniform(params_.area.low, params_.area.high);
    const double aspect = std::exp(draw.uniform(std::log(params_.aspect.low), std::log(params_.aspect.high)));
    box.height = side(std::sqrt(area * aspect), window.height);
    box.width = side(std::sqrt(area / aspect), window.width);
    box.top = static_cast<int>(draw.integer(0, window.height - box.height));
    box.left = static_cast<int>(draw.integer(0, window.width - box.width));
    result.boxes.push_back(box);
  }
  if (params_.value == "noise") {
    const std::uint64_t upper = draw.bits();
    result.seed = upper << 32 | draw.bits();
  }
  return result;
}

void Erasing::apply(const Image& image, const Boxes& boxes, ImageShape window) const {
  std::uint8_t colour[4];
  std::copy_n(outside_.fill, 4, colour);
  if (params_.value == "mean") mean_colour(image, colour);
  std::uint64_t word = boxes.seed;
  for (Box box : boxes.boxes) {
    box.top += centred(image.shape.height, window.height);
    box.left += centred(image.shape.width, window.width);
    if (params_.value != "noise") {
      fill(image, box, colour);
      continue;
    }
    for_rows(image, box, [&word](std::uint8_t* row, std::size_t bytes) {
      for (std::size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::uint8_t>(mix64(word++));
    });
  }
}

void Erasing::fill(const Image& image, const Box& box, const std::uint8_t colour[4]) const {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  for_rows(image, box, [&](std::uint8_t* row, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += channels) std::copy_n(colour, channels, row + i);
  });
}

}  // namespace millrace
