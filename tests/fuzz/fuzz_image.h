// Common parts of the fuzz targets of image wrappers. An input: a byte of options, a byte that selects the part, the file.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "fuzz.h"
#include "image_file.h"
#include "millrace/error.h"

namespace millrace::fuzz {

inline std::string as_input(int options, int part, const std::vector<std::uint8_t>& file) {
  return std::string{static_cast<char>(options), static_cast<char>(part)} + std::string(file.begin(), file.end());
}

struct Decoded {
  std::vector<std::uint8_t> pixels;
  std::string error;  // else
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

// `before`: previous content of the memory for the pixels.
inline Decoded decode_image(ImageFile& file, unsigned options, unsigned part, std::span<const std::uint8_t> bytes,
                            std::uint8_t before) {
  DecodeLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_scans = 20;
  limits.allow_warnings = (options & 2U) != 0;
  Decoded result;
  const auto render = [&](const Region& region, int height, int width, bool resampled, int channels) {
    const Box box{static_cast<float>(region.left), static_cast<float>(region.top), static_cast<float>(region.left + region.width),
                  static_cast<float>(region.top + region.height)};
    result.pixels.assign(static_cast<std::size_t>(height * width * channels), before);
    file.render({region, box, height, width, resampled}, ResampleFilter::bilinear,
                {result.pixels.data(), {height, width, channels}});
  };
  try {
    const ImageShape shape = (options & 32U) != 0 ? file.open_labels(bytes, limits)
                                                  : file.open(bytes, (options & 1U) != 0 ? 1 : 3, limits, (options & 4U) == 0);
    require(shape.is_static() && std::int64_t{shape.height} * shape.width <= limits.max_pixels, "an image within its limits");
    if ((options & 8U) == 0) {
      render({0, 0, shape.height, shape.width}, shape.height, shape.width, false, shape.channels);
      return result;
    }
    Region region;
    region.height = 1 + static_cast<int>(part % 16) * (shape.height - 1) / 15;
    region.width = 1 + static_cast<int>(part / 16) * (shape.width - 1) / 15;
    region.top = (shape.height - region.height) / 2;
    region.left = (shape.width - region.width) / 2;
    const bool resampled = (options & 16U) != 0;
    render(region, resampled ? 7 : region.height, resampled ? 5 : region.width, resampled, shape.channels);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::content, "only the content is to blame");
    result.pixels.clear();
    result.error = error.message();
  }
  return result;
}

// The whole image or a part of it, depending on the options; with bit 6 by a decoder that has also seen another file.
inline void read_image(const std::uint8_t* data, std::size_t size, std::initializer_list<std::uint8_t> magic) {
  static ImageFile used;
  if (size < 2 + magic.size() || !std::equal(magic.begin(), magic.end(), data + 2)) return;
  const std::span<const std::uint8_t> bytes(data + 2, size - 2);
  const Decoded result = decode_image(used, data[0], data[1], bytes, 0);
  if ((data[0] & 64U) == 0) return;
  ImageFile fresh;
  require(decode_image(fresh, data[0], data[1], bytes, 0xaa) == result, "a file decodes to the same whatever came before it");
}

}  // namespace millrace::fuzz
