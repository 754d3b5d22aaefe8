#include "jpeg_images_fixture.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE and size_t before it
#include <jpeglib.h>

#include "millrace/sample.h"

namespace millrace::testing_jpeg {

int components(Kind kind) { return kind == Kind::grey ? 1 : kind == Kind::rgb ? 3 : 4; }

std::vector<std::uint8_t> gradient(int height, int width, int channels) {
  std::vector<std::uint8_t> pixels;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      for (int c = 0; c < channels; ++c) {
        const int value = c == 0 ? 255 * row / height : c == 1 ? 255 * column / width : 200 - 100 * row / height;
        pixels.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  return pixels;
}

std::vector<std::uint8_t> noise(int height, int width, int channels, std::uint64_t seed) {
  std::vector<std::uint8_t> pixels = gradient(height, width, channels);
  Draw draw(seed, {}, 0);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (i / 64 % 3 != 0) pixels[i] = static_cast<std::uint8_t>(pixels[i] + draw.integer(0, 60));
  }
  return pixels;
}

namespace {

void write_orientation(jpeg_compress_struct& info, int orientation) {
  const std::uint8_t exif[] = {'E', 'x', 'i', 'f',  0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                               8,   0,   1,   0x01, 0x12, 0, 3,   0,   0, 0,  1, 0, static_cast<std::uint8_t>(orientation),
                               0,   0,   0,   0,    0,    0};
  jpeg_write_marker(&info, JPEG_APP0 + 1, exif, sizeof exif);
}

std::vector<jpeg_scan_info> single_scans(int components) {
  std::vector<jpeg_scan_info> scans(1);
  scans[0].comps_in_scan = components;
  for (int c = 0; c < components; ++c) scans[0].component_index[c] = c;
  for (int c = 0; c < components; ++c) {
    for (int k = 1; k < 64; ++k) {
      jpeg_scan_info scan{};
      scan.comps_in_scan = 1;
      scan.component_index[0] = c;
      scan.Ss = scan.Se = k;
      scans.push_back(scan);
    }
  }
  return scans;
}

}  // namespace

std::vector<std::uint8_t> encode(const Recipe& recipe) {
  const int channels = components(recipe.kind);
  std::vector<std::uint8_t> pixels = recipe.pixels.empty() ? gradient(recipe.height, recipe.width, channels) : recipe.pixels;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(recipe.height);
  info.image_width = static_cast<JDIMENSION>(recipe.width);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (recipe.kind == Kind::ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  if (channels == 4) info.write_Adobe_marker = recipe.adobe ? TRUE : FALSE;
  if (channels == 3) {
    info.comp_info[0].h_samp_factor = recipe.horizontal;
    info.comp_info[0].v_samp_factor = recipe.vertical;
    info.comp_info[1].h_samp_factor = recipe.blue_horizontal;
    info.comp_info[1].v_samp_factor = recipe.blue_vertical;
  }
  info.restart_interval = recipe.restart;
  info.optimize_coding = recipe.optimized ? TRUE : FALSE;
  jpeg_set_quality(&info, recipe.quality, TRUE);
  if (recipe.progressive) jpeg_simple_progression(&info);
  const std::vector<jpeg_scan_info> scans = single_scans(channels);
  if (recipe.many_scans) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  if (recipe.orientation != 0) write_orientation(info, recipe.orientation);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row =
        pixels.data() + static_cast<std::size_t>(info.next_scanline) * info.image_width * static_cast<unsigned>(channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::uint8_t> bytes(buffer, buffer + size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

}  // namespace millrace::testing_jpeg
