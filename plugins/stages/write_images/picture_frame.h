#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

// Where the pixels of the network's input lie in a picture, and the picture's size.
struct PictureFrame {
  AffineMap from_input;
  int height = 0, width = 0;

  std::size_t places() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  // From the pixels of a map that covers the network's input.
  AffineMap from_map(int map_height, int map_width, ImageShape window) const;
};

// `size`: "network", the network's input size; "source", the size of the image file. Throws Error(usage) for a sample whose place
// in its source image is unknown.
PictureFrame frame_of(const StageSite& site, const std::string& size, const Predictions::Sample& sample);

// Throws Error(usage) for a network whose images cannot be drawn in colours.
void require_colours(const StageSite& site);

// Draws images as the network saw them, in R, G, B: black where it saw nothing. Padding is not drawn in a picture of the image's
// own size. REQUIRES: the predictions' batch.
class SeenImage {
 public:
  void draw(const Predictions& share, std::size_t sample, const PictureFrame& frame, std::vector<std::uint8_t>& picture);

 private:
  std::vector<std::uint8_t> seen_;
};

}  // namespace millrace
