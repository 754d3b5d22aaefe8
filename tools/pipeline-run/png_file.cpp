#include <png.h>

#include "millrace/error.h"
#include "rate_picture.h"

namespace millrace {

bool writes_png() { return true; }

std::string png_of(const Picture& picture) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(picture.height());
  info.width = static_cast<png_uint_32>(picture.width());
  info.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(info);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&info, bytes.data(), &size, 0, picture.pixels().data(), 0, nullptr) == 0) {
    fail(ErrorKind::run, "cannot make a PNG file of {} x {} pixels: {}", info.height, info.width, info.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace millrace
