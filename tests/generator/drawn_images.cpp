#include "drawn_images.h"

#include "plugins/stages/decode_image/jpeg_images_fixture.h"
#include "plugins/stages/decode_image/png_images_fixture.h"

namespace millrace::generator {

namespace {

std::vector<std::uint8_t> drawn_jpeg(Draw& draw, ImageSize size, bool upright) {
  using testing_jpeg::Kind;
  constexpr Kind kKinds[] = {Kind::rgb, Kind::rgb, Kind::rgb, Kind::grey, Kind::cmyk, Kind::ycck};
  testing_jpeg::Recipe recipe;
  recipe.height = size.height;
  recipe.width = size.width;
  recipe.kind = kKinds[draw.integer(0, 5)];
  recipe.progressive = draw.chance(0.3);
  recipe.adobe = draw.chance(0.7);
  recipe.quality = static_cast<int>(draw.integer(5, 100));
  recipe.horizontal = static_cast<int>(draw.integer(1, 2));
  recipe.vertical = static_cast<int>(draw.integer(1, 2));
  recipe.optimized = draw.chance(0.3);
  recipe.restart = draw.chance(0.3) ? static_cast<unsigned>(draw.integer(1, 5)) : 0;
  recipe.orientation = upright ? 0 : static_cast<int>(draw.integer(0, 8));
  recipe.pixels = testing_jpeg::noise(size.height, size.width, components(recipe.kind), draw.bits());
  return encode(recipe);
}

std::vector<std::uint8_t> drawn_png(Draw& draw, ImageSize size, bool upright) {
  using testing_png::Colour;
  constexpr Colour kColours[] = {Colour::grey, Colour::rgb, Colour::palette, Colour::grey_alpha, Colour::rgba};
  testing_png::Recipe recipe;
  recipe.height = size.height;
  recipe.width = size.width;
  recipe.colour = kColours[draw.integer(0, 4)];
  const bool is_small = recipe.colour == Colour::grey || recipe.colour == Colour::palette;
  recipe.depth = is_small ? 1 << draw.integer(0, 3) : 8;
  if (recipe.colour != Colour::palette && draw.chance(0.25)) recipe.depth = 16;
  recipe.interlaced = draw.chance(0.3);
  recipe.text = draw.chance(0.2);
  recipe.orientation = upright ? 0 : static_cast<int>(draw.integer(0, 8));
  recipe.values = random_values(recipe, draw.bits());
  if (is_small && draw.chance(0.3)) recipe.transparent = static_cast<int>(draw.integer(0, (1 << recipe.depth) - 1)) & 255;
  if (recipe.colour == Colour::palette) {
    for (int i = 0; i < 3 << recipe.depth; ++i) recipe.palette.push_back(static_cast<std::uint8_t>(draw.bits()));
  }
  return encode(recipe);
}

}  // namespace

ImageSize drawn_size(Draw& draw) {
  const auto side = [&](std::int64_t low, std::int64_t high) { return static_cast<int>(draw.integer(low, high)); };
  switch (draw.integer(0, 9)) {
    case 0: return {side(1, 3), side(1, 3)};
    case 1: return {side(1, 6), side(60, 200)};
    case 2: return {side(60, 200), side(1, 6)};
    case 3: return {side(60, 130), side(60, 130)};
    default: return {side(8, 48), side(8, 48)};
  }
}

ImageBytes drawn_image(Draw& draw, ImageSize size, bool upright) {
  if (draw.chance(0.5)) return {"png", drawn_png(draw, size, upright)};
  return {"jpg", drawn_jpeg(draw, size, upright)};
}

std::vector<std::uint8_t> drawn_labels(Draw& draw, ImageSize size, int classes) {
  testing_png::Recipe recipe;
  recipe.height = size.height;
  recipe.width = size.width;
  recipe.colour = testing_png::Colour::grey;
  recipe.interlaced = draw.chance(0.2);
  for (int i = 0; i < size.height * size.width; ++i)
    recipe.values.push_back(static_cast<std::uint16_t>(draw.chance(0.1) ? 255 : draw.integer(0, classes - 1)));
  return encode(recipe);
}

}  // namespace millrace::generator
