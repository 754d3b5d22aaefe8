#include "png_file.h"

#include <png.h>

#include "millrace/error.h"

namespace millrace {

std::string png_bytes(const ImageView& image, const std::uint8_t* palette, PngEffort effort) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(image.shape.height);
  info.width = static_cast<png_uint_32>(image.shape.width);
  info.format = palette != nullptr ? PNG_FORMAT_RGB_COLORMAP : kFormats[image.shape.channels - 1];
  info.flags = effort == PngEffort::quick ? PNG_IMAGE_FLAG_FAST : 0;
  info.colormap_entries = palette != nullptr ? 256 : 0;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(info);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&info, bytes.data(), &size, 0, image.data, 0, palette) == 0) {
    fail(ErrorKind::run, "cannot make a PNG file of {}: {}", to_string(image.shape), info.message);
  }
  bytes.resize(size);
  return bytes;
}

bool writes_png() { return true; }

}  // namespace millrace
