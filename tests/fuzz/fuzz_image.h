// What the fuzz targets of the image wrappers share. An input: a byte of options, a byte that says which part, the file.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "fuzz.h"
#include "image_file.h"
#include "millrace/error.h"

namespace millrace::fuzz {

inline std::string as_input(int options, int part, const std::vector<std::uint8_t>& file) {
  return std::string{static_cast<char>(options), static_cast<char>(part)} + std::string(file.begin(), file.end());
}

// Decodes the whole image, then a part of it; one size may be said, so that it is resampled. `magic`: other files are left alone.
inline void read_image(const std::uint8_t* data, std::size_t size, std::initializer_list<std::uint8_t> magic) {
  static ImageFile file;
  if (size < 2 + magic.size() || !std::equal(magic.begin(), magic.end(), data + 2)) return;
  const unsigned options = data[0], part = data[1];
  const int channels = (options & 1U) != 0 ? 1 : 3;
  DecodeLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_scans = 20;
  limits.allow_warnings = (options & 2U) != 0;
  const std::span<const std::uint8_t> bytes(data + 2, size - 2);
  const bool labels = (options & 32U) != 0;
  const auto open = [&] {
    return labels ? file.open_labels(bytes, limits) : file.open(bytes, channels, limits, (options & 4U) == 0);
  };
  const auto render = [&](const Region& region, int height, int width, bool resampled, int result_channels) {
    const Box box{static_cast<float>(region.left), static_cast<float>(region.top), static_cast<float>(region.left + region.width),
                  static_cast<float>(region.top + region.height)};
    std::vector<std::uint8_t> out(static_cast<std::size_t>(height * width * result_channels));
    file.render({region, box, height, width, resampled}, ResampleFilter::bilinear,
                {out.data(), {height, width, result_channels}});
  };
  try {
    const ImageShape shape = open();
    require(shape.is_static() && std::int64_t{shape.height} * shape.width <= limits.max_pixels, "an image within its limits");
    if ((options & 8U) == 0) return render({0, 0, shape.height, shape.width}, shape.height, shape.width, false, shape.channels);
    Region region;
    region.height = 1 + static_cast<int>(part % 16) * (shape.height - 1) / 15;
    region.width = 1 + static_cast<int>(part / 16) * (shape.width - 1) / 15;
    region.top = (shape.height - region.height) / 2;
    region.left = (shape.width - region.width) / 2;
    const bool resampled = (options & 16U) != 0;
    render(region, resampled ? 7 : region.height, resampled ? 5 : region.width, resampled, shape.channels);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::content, "only the content is to blame");
  }
}

}  // namespace millrace::fuzz
