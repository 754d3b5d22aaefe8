// The PNG wrapper: images and label images, whole and in part.
#include "fuzz_image.h"
#include "png_images_fixture.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  using testing_png::Colour;
  std::vector<std::string> all;
  for (const Colour colour : {Colour::grey, Colour::rgb, Colour::palette, Colour::grey_alpha, Colour::rgba}) {
    for (const bool interlaced : {false, true}) {
      testing_png::Recipe recipe{.height = 13, .width = 19, .colour = colour, .interlaced = interlaced};
      if (colour == Colour::palette) {
        recipe.depth = 4;
        recipe.palette.assign(48, 100);
        recipe.transparent = 3;
      }
      if (colour == Colour::rgba) recipe.depth = 16;
      recipe.text = interlaced;
      recipe.orientation = interlaced ? 6 : 0;
      recipe.values = random_values(recipe, 1);
      all.push_back(as_input(64 + static_cast<int>(colour) + 8 * interlaced, 6, encode(recipe)));
      all.push_back(as_input(32, 6, encode(recipe)));
    }
  }
  return all;
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::read_image(data, size, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
  return 0;
}
