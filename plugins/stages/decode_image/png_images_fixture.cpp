#include "png_images_fixture.h"

#include <png.h>

#include "millrace/sample.h"

namespace millrace::testing_png {

int channels(Colour colour) {
  switch (colour) {
    case Colour::rgb: return 3;
    case Colour::grey_alpha: return 2;
    case Colour::rgba: return 4;
    default: return 1;
  }
}

std::vector<std::uint16_t> random_values(const Recipe& recipe, std::uint64_t seed) {
  Draw draw(seed, {}, 0);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(recipe.height * recipe.width * channels(recipe.colour)));
  for (auto& value : values) value = static_cast<std::uint16_t>(draw.integer(0, (1 << recipe.depth) - 1));
  return values;
}

std::vector<std::uint8_t> encode(const Recipe& recipe) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_GRAY_ALPHA,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  std::vector<std::uint8_t> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, std::size_t size) {
        auto& out = *static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(p));
        out.insert(out.end(), data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(recipe.width), static_cast<png_uint_32>(recipe.height), recipe.depth,
               kTypes[static_cast<int>(recipe.colour)], recipe.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 2 < recipe.palette.size(); i += 3)
    palette.push_back({recipe.palette[i], recipe.palette[i + 1], recipe.palette[i + 2]});
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (recipe.transparent >= 0) {
    std::vector<png_byte> alpha(static_cast<std::size_t>(recipe.transparent) + 1, 255);
    alpha.back() = 0;
    png_color_16 grey{};
    grey.gray = static_cast<png_uint_16>(recipe.transparent);
    png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), &grey);
  }
  png_byte exif[] = {'M',  'M',  0, 42, 0, 0, 0, 8, 0, 1,
                     0x01, 0x12, 0, 3,  0, 0, 0, 1, 0, static_cast<png_byte>(recipe.orientation),
                     0,    0,    0, 0,  0, 0};
  if (recipe.orientation != 0) png_set_eXIf_1(png, info, sizeof exif, exif);
  char key[] = "Comment", text[] = "made for a test";
  png_text note{};
  note.compression = PNG_TEXT_COMPRESSION_NONE;
  note.key = key;
  note.text = text;
  if (recipe.text) png_set_text(png, info, &note, 1);
  png_write_info(png, info);
  if (recipe.depth < 8) png_set_packing(png);
  const std::size_t per_row = static_cast<std::size_t>(recipe.width * channels(recipe.colour));
  std::vector<std::vector<std::uint8_t>> rows;
  for (std::size_t row = 0; row < static_cast<std::size_t>(recipe.height); ++row) {
    rows.emplace_back();
    for (std::size_t i = 0; i < per_row; ++i) {
      const std::uint16_t value = recipe.values[row * per_row + i];
      if (recipe.depth == 16) rows.back().push_back(static_cast<std::uint8_t>(value >> 8));
      rows.back().push_back(static_cast<std::uint8_t>(value));
    }
  }
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace millrace::testing_png
