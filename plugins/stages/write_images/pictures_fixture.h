// Reads PNG files back, and makes predictions with given values.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "testkit/predictions.h"

namespace millrace::testkit {

struct Picture {
  int height = 0, width = 0;
  bool indexed = false;  // `pixels` are indices into `palette`
  std::vector<std::uint8_t> pixels, palette;
};

// A grey file as one channel, a palette file as its indices, other files as R, G, B.
inline Picture read_png(const std::string& file) {
  Picture picture;
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&info, file.c_str()), 0) << file << ": " << info.message;
  picture.indexed = (info.format & PNG_FORMAT_FLAG_COLORMAP) != 0;
  const bool grey = !picture.indexed && (info.format & PNG_FORMAT_FLAG_COLOR) == 0;
  info.format = picture.indexed ? PNG_FORMAT_RGB_COLORMAP : grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  picture.height = static_cast<int>(info.height);
  picture.width = static_cast<int>(info.width);
  picture.pixels.resize(PNG_IMAGE_SIZE(info));
  picture.palette.resize(picture.indexed ? 3 * 256 : 0);
  EXPECT_NE(png_image_finish_read(&info, nullptr, picture.pixels.data(), 0, picture.palette.data()), 0) << info.message;
  return picture;
}

}  // namespace millrace::testkit
