// Our own Huffman decoder compared with libjpeg's: images that it decodes have the same pixels in libjpeg, with at most a
// warning about bytes after the scan.
#include "fuzz.h"
#include "jpeg_images_fixture.h"
#include "jpeg_reference.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  using testing_jpeg::Kind;
  std::vector<std::string> all;
  for (const Kind kind : {Kind::grey, Kind::rgb, Kind::ycck}) {
    for (const int quality : {10, 90, 100}) {
      for (const bool optimized : {false, true}) {
        testing_jpeg::Recipe recipe{.height = 33, .width = 41, .kind = kind, .quality = quality, .optimized = optimized};
        recipe.pixels = testing_jpeg::noise(recipe.height, recipe.width, testing_jpeg::components(kind), 1);
        const auto file = encode(recipe);
        all.emplace_back(file.begin(), file.end());
      }
    }
  }
  return all;
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  constexpr std::size_t kMax = std::size_t{4} << 14;  // bytes of pixels
  static JpegEntropy entropy;
  static testing_jpeg::Libjpeg with(&entropy), alone;
  const testing_jpeg::Outcome own = with.decode({data, size}, kMax);
  if (!own.took_over || !own.error.empty()) return 0;
  const testing_jpeg::Outcome theirs = alone.decode({data, size}, kMax);
  if (theirs.error.find("extraneous bytes") != std::string::npos) return 0;
  fuzz::require(theirs.error.empty(), "what it decodes, libjpeg decodes");
  fuzz::require(own.pixels == theirs.pixels, "the pixels are libjpeg's");
  return 0;
}
