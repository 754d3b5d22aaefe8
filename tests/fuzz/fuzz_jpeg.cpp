// The JPEG wrapper: whole images and parts, reduced or not, strict or lenient.
#include "fuzz_image.h"
#include "jpeg_images_fixture.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  using testing_jpeg::Kind;
  std::vector<std::string> all;
  for (const int kind : {0, 1, 2, 3}) {
    for (const bool progressive : {false, true}) {
      testing_jpeg::Recipe recipe{.height = 33, .width = 41, .kind = static_cast<Kind>(kind), .progressive = progressive};
      recipe.quality = 60;
      recipe.restart = progressive ? 0 : 2;
      recipe.orientation = kind * 2 + progressive;
      all.push_back(as_input(64 + 8 + kind, 5, encode(recipe)));
      all.push_back(as_input(16 * kind, 0, encode(recipe)));
    }
  }
  all.push_back(as_input(9, 77, testing_jpeg::encode({.height = 20, .width = 20, .many_scans = true})));
  // Large enough for our own Huffman decoder.
  testing_jpeg::Recipe large{.height = 120, .width = 120, .quality = 100};
  large.horizontal = large.vertical = 1;
  large.pixels = testing_jpeg::noise(large.height, large.width, 3, 1);
  for (const int options : {64, 8}) all.push_back(as_input(options, 77, testing_jpeg::encode(large)));
  return all;
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::read_image(data, size, {0xff, 0xd8});
  return 0;
}
